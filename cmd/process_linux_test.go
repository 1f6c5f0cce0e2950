package cmd_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openTerminal makes a terminal: read its screen from screen, and write to it what is typed. Without a size it doesn't
// know its own, like some real terminals.
func openTerminal(size unix.Winsize) (screen, line *os.File, err error) {
	if screen, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	// By descriptor number, because Fd would make it blocking.
	raw, err := screen.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	var number int
	err = errors.Join(raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
		err = errors.Join(err, unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &size))
	}), err)
	if err != nil {
		return nil, nil, err
	}
	line, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	return screen, line, err
}

// onTerminal is the program terminal.
func onTerminal(args []string) error {
	size, errorsToo := unix.Winsize{}, args[0] == "--stderr"
	if errorsToo {
		args = args[1:]
	}
	if columns, ok := strings.CutPrefix(args[0], "--columns="); ok {
		n, err := strconv.ParseUint(columns, 10, 16)
		if err != nil {
			return err
		}
		size, args = unix.Winsize{Col: uint16(n), Row: 24}, args[1:]
	}
	screen, line, err := openTerminal(size)
	if err != nil {
		return err
	}
	defer screen.Close()
	shown := make(chan error)
	go func() {
		_, err := io.Copy(os.Stdout, screen)
		shown <- err
	}()
	c := exec.Command(args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, line, os.Stderr
	if errorsToo {
		c.Stderr = line
	}
	failed := c.Run()
	line.Close()
	// Reading from a terminal whose other end is closed returns EIO.
	if err := <-shown; err != nil && !errors.Is(err, syscall.EIO) {
		return err
	}
	return failed
}

// unprivileged is the program unprivileged: it drops root's capabilities before it executes a program.
func unprivileged(args []string) error {
	runtime.LockOSThread()
	if os.Geteuid() == 0 {
		for _, capability := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_KILL} {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
				return err
			}
		}
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, args, os.Environ())
}

// hold is the program hold: its lease on the file delays other processes that open or execute the file.
func hold(args []string) error {
	file, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	tried := make(chan os.Signal, 1)
	signal.Notify(tried, syscall.SIGIO)
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return err
	}
	if err := os.WriteFile(args[1], nil, 0o600); err != nil {
		return err
	}
	<-tried
	if err := os.Remove(args[1]); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
