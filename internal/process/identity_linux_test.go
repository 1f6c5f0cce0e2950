package process_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/process/processtest"
)

// TestIsGone: a process is gone once it is killed, even before it is reaped. A process that lives, or can't be seen
// from here, never is.
func TestIsGone(t *testing.T) {
	own := process.Identity()
	if len(strings.Fields(own)) != 5 || process.IsGone(own) {
		t.Fatalf("%q is gone", own)
	}
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	its := processtest.Identity(t, child.Process.Pid)
	if process.IsGone(its) {
		t.Error("it is gone, and lives")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	processtest.Eventually(t, "it is a zombie, and gone", func() bool { return process.IsGone(its) })
	_ = child.Wait()
	if !process.IsGone(its) {
		t.Error("it is no more, and isn't gone")
	}
	fields := strings.Fields(its)
	for at, other := range []string{"another-boot", "pid:[1]", "time:[1]"} {
		elsewhere := append([]string{}, fields...)
		elsewhere[at] = other
		if process.IsGone(strings.Join(elsewhere, " ")) {
			t.Errorf("%q is gone, and can't be seen from here", elsewhere)
		}
	}
	for _, odd := range []string{"", "NONE", strings.Join(fields[:4], " "), strings.Join(fields[:3], " ") + " x y", strings.Join(fields[:3], " ") + " -1 5", own + " 7"} {
		if process.IsGone(odd) {
			t.Errorf("%q is gone", odd)
		}
	}
	// another process has the id by now
	if mine := strings.Fields(own); !process.IsGone(strings.Join(append(mine[:4:4], "1"), " ")) {
		t.Error("one that had this process's id before isn't gone")
	}
}
