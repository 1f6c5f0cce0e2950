//go:build !linux

package guard_test

import "errors"

// lateStarter is unsupported, because no timer kills a late starter here.
func lateStarter([]string) error { return errors.ErrUnsupported }
