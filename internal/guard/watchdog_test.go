package guard

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// A guard that was stopped until long after the lock's end, and whose worker is gone, may have others before it under the ids
// that it knows: it leaves them alone.
func TestWorkerGoneLongAgo(t *testing.T) {
	for after, ends := range map[time.Duration]bool{time.Second: true, 2 * time.Second: false} {
		program := exec.Command("sleep", "60")
		program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		dbtest.OK(t, program.Start())
		s := dbtest.Must(newWatchdog([]string{"0198-nobody", "100ms"}))(t)
		now := now()
		s.hear("until 1000", now)
		s.addGroup(program.Process.Pid)
		s.workerGone(now.Add(after))
		if !ends {
			_ = program.Process.Signal(syscall.SIGINT)
		}
		err := program.Wait()
		dbtest.Ensure(t, err != nil && (err.Error() == "signal: terminated") == ends, "after %s, %v", after, err)
	}
}
