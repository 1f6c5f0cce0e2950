package handler_test

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/queue/handler"
)

// Who isn't root can't start programs as another user, nor prefer them to others, and may name itself.
func TestUserNeedsRoot(t *testing.T) {
	asNobody := func(p *handler.Program) string {
		said := make(chan string)
		go func() {
			runtime.LockOSThread() // the thread ends with this goroutine
			if os.Geteuid() == 0 {
				// the package's own function would do it to all threads
				if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); err != 0 {
					said <- err.Error()
					return
				}
			}
			if err := p.CheckSurroundings(); err != nil {
				said <- err.Error()
				return
			}
			said <- ""
		}()
		return <-said
	}
	if os.Geteuid() == 0 {
		want := "user: only root can start programs as another user, and hipq runs as user 65534, not as daemon"
		if got := asNobody(&handler.Program{User: "daemon"}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := asNobody(&handler.Program{User: "nobody"}); got != "" {
			t.Error("itself: " + got)
		}
	}
	if got := asNobody(&handler.Program{Nice: -1}); got != "nice: -1: only a program that runs as root can be preferred to others" {
		t.Error(got)
	}
	if got := asNobody(&handler.Program{Nice: 1}); got != "" {
		t.Error(got)
	}
}
