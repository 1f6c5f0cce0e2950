//go:build !windows

package dbtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/process"
)

// Escape is for a test binary that a program starts: it leaves its process group, writes its pid to a file, and stays
// for a minute, ignoring TERM. args is the FILE.
func Escape(args []string) error {
	if err := syscall.Setpgid(0, 0); err != nil {
		return err
	}
	stay := exec.Command("sh", "-c", `trap "" TERM; echo $$ >"$0"; sleep 60; :`, args[0])
	stay.Stdout, stay.Stderr = os.Stdout, os.Stderr
	return stay.Run()
}

// Play lets a test binary be another process that a test needs: if its first argument names a role, it plays that, and must end
// with the code.
func Play(roles map[string]func(args []string) error) (code int, played bool) {
	if len(os.Args) < 2 || roles[os.Args[1]] == nil {
		return 0, false
	}
	if err := roles[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code, true
}

// Eventually polls until is is true, less and less often, because the awaited process needs the processor too.
func Eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for pause := time.Millisecond; !is(); pause = min(2*pause, 20*time.Millisecond) {
		Require(t, !time.Now().After(deadline), "not within 20s: %s", what)
		time.Sleep(pause)
	}
}

// Number waits for a file with a number and a newline.
func Number(t *testing.T, path string) int {
	t.Helper()
	var n int
	Eventually(t, "a number in "+filepath.Base(path), func() bool {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.HasSuffix(text, []byte("\n")) {
			return false
		}
		n, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return n
}

// Alive reports whether a process runs. A zombie doesn't, once its last thread has ended: until then its files are
// open.
func Alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		_, noProc := os.Stat("/proc/self")
		return noProc != nil
	}
	_, state, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	if state[0] != 'Z' && state[0] != 'X' {
		return true
	}
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return len(threads) > 1
}

// EventuallyGone waits until a process is gone.
func EventuallyGone(t *testing.T, what string, pid int) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	Eventually(t, what+" is gone", func() bool { return !Alive(pid) })
}

// Identity is the process.Identity of another running process. It skips the test if the system has none.
func Identity(t *testing.T, pid int) string {
	t.Helper()
	own := strings.Fields(process.Identity())
	o, ok := process.OtherOf(pid)
	if len(own) == 0 {
		t.Skip("no process knows of another here whether it is gone")
	}
	Require(t, ok, "there is no process %d", pid)
	return fmt.Sprintf("%s %d %d", strings.Join(own[:3], " "), pid, o.Born)
}
