package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestBadFiles loads each file of testdata/bad, which begins with the message wanted, a comment for each line of it.
// Where a message ends in … the rest is another package's to say.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("only %d files: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data := dbtest.Must(os.ReadFile(file))(t)
			path, err := filepath.Abs(file)
			do(t, err)
			var want []string
			for line := range strings.Lines(string(data)) {
				message, ok := strings.CutPrefix(line, "# ")
				if !ok {
					break
				}
				want = append(want, "invalid configuration: "+path+": "+strings.TrimSuffix(message, "\n"))
			}
			_, err = Load(LoadOptions{File: file, Env: noEnv})
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("the error does not wrap ErrInvalid: %v", err)
			}
			got := err.Error()
			if begin, open := strings.CutSuffix(strings.Join(want, "\n"), "…"); open && strings.HasPrefix(got, begin) && len(got) > len(begin) {
				want = []string{got}
			}
			dbtest.Same(t, cmp.Diff(strings.Join(want, "\n"), got), "", "the message (-want +got)")
			dbtest.Ensure(t, !strings.Contains(got, "s3cret"), "the message shows a secret: %v", err)
		})
	}
}

// noEnv is an environment with nothing in it.
var noEnv = []string{}
