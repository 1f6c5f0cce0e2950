//go:build !linux

package cmd_test

import "errors"

var errLinux = errors.New("this is for Linux: ask with [linux]")

func onTerminal([]string) error { return errLinux }

func unprivileged([]string) error { return errLinux }

func hold([]string) error { return errLinux }

func pressTab([]string) error { return errLinux }
