// Package browser tests the pages of hipq ui in a real browser. make test-browser runs it.
package browser
