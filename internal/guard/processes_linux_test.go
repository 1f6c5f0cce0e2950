package guard_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

// processesOf finds the worker with this id, its guard, and its programs.
func processesOf(t *testing.T, id string) (found []string) {
	t.Helper()
	for _, file := range []string{"cmdline", "environ"} {
		paths, err := filepath.Glob("/proc/[0-9]*/" + file)
		dbtest.OK(t, err)
		for _, path := range paths {
			if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(id)) {
				found = append(found, path)
			}
		}
	}
	return found
}
