package process_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/process"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestIsGone: a process is gone once it is killed, even before it is reaped. A process that lives, or can't be seen
// from here, never is.
func TestIsGone(t *testing.T) {
	own := process.Identity()
	dbtest.Require(t, len(strings.Fields(own)) == 5 && !process.IsGone(own), "%q is gone", own)
	child := exec.Command("sleep", "600")
	dbtest.OK(t, child.Start())
	its := dbtest.Identity(t, child.Process.Pid)
	dbtest.Ensure(t, !process.IsGone(its), "it is gone, and lives")
	dbtest.OK(t, child.Process.Kill())
	dbtest.Eventually(t, "it is a zombie, and gone", func() bool { return process.IsGone(its) })
	_ = child.Wait()
	dbtest.Ensure(t, process.IsGone(its), "it is no more, and isn't gone")
	fields := strings.Fields(its)
	for at, other := range []string{"another-boot", "pid:[1]", "time:[1]"} {
		elsewhere := append([]string{}, fields...)
		elsewhere[at] = other
		dbtest.Ensure(t, !process.IsGone(strings.Join(elsewhere, " ")), "%q is gone, and can't be seen from here", elsewhere)
	}
	for _, odd := range []string{"", "NONE", strings.Join(fields[:4], " "), strings.Join(fields[:3], " ") + " x y", strings.Join(fields[:3], " ") + " -1 5", own + " 7"} {
		dbtest.Ensure(t, !process.IsGone(odd), "%q is gone", odd)
	}
	// another process has the id by now
	mine := strings.Fields(own)
	dbtest.Ensure(t, process.IsGone(strings.Join(append(mine[:4:4], "1"), " ")), "one that had this process's id before isn't gone")
}
