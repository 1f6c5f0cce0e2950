package process_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/process"
)

// TestSignalOther: a process gets its own signals, and none for an earlier process with its id.
func TestSignalOther(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	dbtest.OK(t, cmd.Start())
	pid := cmd.Process.Pid
	o, ok := process.OtherOf(pid)
	dbtest.Require(t, ok && o.Parent == os.Getpid() && !o.Ended, "%+v, %t", o, ok)
	before := o
	before.Born--
	err := before.Signal(pid, syscall.SIGKILL)
	dbtest.Ensure(t, errors.Is(err, syscall.ESRCH), "another of the id: %v", err)
	err = o.Signal(pid, 0)
	dbtest.Ensure(t, err == nil && process.Runs(pid), "it is gone: %v", err)
	dbtest.Same(t, o.Signal(pid, syscall.SIGTERM), nil)
	err = cmd.Wait()
	dbtest.Ensure(t, err != nil && err.Error() == "signal: terminated", "%v", err)
	dbtest.Ensure(t, !process.Runs(pid) && o.Signal(pid, 0) != nil, "it is there after it was reaped")
}

// headless makes the test binary a process whose first thread has ended, and names its pid file.
const headless = "HEADLESS_PID_FILE"

// init certainly runs on the first thread.
func init() {
	file := os.Getenv(headless)
	if file == "" {
		return
	}
	go func() {
		for {
			if stat, _ := os.ReadFile("/proc/self/stat"); strings.Contains(string(stat), ") Z ") {
				break
			}
			time.Sleep(time.Millisecond)
		}
		_ = os.WriteFile(file, strconv.AppendInt(nil, int64(os.Getpid()), 10), 0o600)
		time.Sleep(time.Minute)
		os.Exit(0)
	}()
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

// TestHeadlessIsNoZombie: a process whose first thread has ended looks like a zombie, but isn't.
func TestHeadlessIsNoZombie(t *testing.T) {
	cmd, file := exec.Command(os.Args[0]), filepath.Join(t.TempDir(), "pid")
	cmd.Env = append(os.Environ(), headless+"="+file)
	dbtest.OK(t, cmd.Start())
	for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(time.Millisecond) {
		if text, _ := os.ReadFile(file); len(text) > 0 {
			break
		}
	}
	if text, err := os.ReadFile(file); err != nil || !process.Runs(cmd.Process.Pid) {
		t.Errorf("it has ended, they say: %s, %v", text, err)
	}
	_ = cmd.Process.Kill()
	process.AwaitEnd(cmd.Process.Pid)
	dbtest.Ensure(t, !process.Runs(cmd.Process.Pid), "it has not ended, they say")
	_ = cmd.Wait()
}

// TestKeepListed: if the kernel can't close a range of files, they are listed one by one.
func TestKeepListed(t *testing.T) {
	var kept []int
	for _, from := range []int{3, process.UsualFiles + 40} {
		fd := dbtest.Must(unix.FcntlInt(0, unix.F_DUPFD, from))(t)
		defer unix.Close(fd)
		kept = append(kept, fd)
	}
	process.KeepListed()
	for _, fd := range kept {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		dbtest.Ensure(t, err == nil && flags&unix.FD_CLOEXEC != 0, "file %d passes on: %d, %v", fd, flags, err)
	}
	if flags, err := unix.FcntlInt(0, unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
		t.Errorf("standard input doesn't: %d, %v", flags, err)
	}
}
