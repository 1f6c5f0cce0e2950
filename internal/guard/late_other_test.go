//go:build !linux

package guard_test

import "errors"

// lateStarter has nothing to show where no timer kills who starts late.
func lateStarter([]string) error { return errors.ErrUnsupported }
