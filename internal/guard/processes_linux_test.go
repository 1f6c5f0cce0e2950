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
		paths := dbtest.Must(filepath.Glob("/proc/[0-9]*/" + file))(t)
		for _, path := range paths {
			if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(id)) {
				found = append(found, path)
			}
		}
	}
	return found
}
