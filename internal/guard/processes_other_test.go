//go:build !linux

package guard_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// processesOf finds the worker with this id and its guard.
func processesOf(t *testing.T, id string) []string {
	t.Helper()
	out, err := exec.Command("pgrep", "-f", id).Output()
	if _, none := errors.AsType[*exec.ExitError](err); err != nil && !none {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}
