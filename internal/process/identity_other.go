//go:build !linux

package process

// Identity knows none.
func Identity() string { return "" }

// IsGone can't tell.
func IsGone(string) bool { return false }
