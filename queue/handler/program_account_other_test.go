//go:build !linux

package handler_test

// withKeyring is for Linux, which alone has keyrings.
func withKeyring([]string) error { return nil }
