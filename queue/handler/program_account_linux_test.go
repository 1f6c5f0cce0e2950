package handler_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/queue/handler"
)

const cantPrefer = "nice: -1: only a program that runs as root with CAP_SYS_NICE may have less than 0"

// TestUserNeedsRoot: only root can start programs as another user or prefer them. A program may name its own user.
func TestUserNeedsRoot(t *testing.T) {
	asNobody := func(p *handler.Program) string {
		return checkedWithout(p, func() error {
			if os.Geteuid() == 0 { // the package's own function would change all threads
				if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); err != 0 {
					return err
				}
			}
			return nil
		})
	}
	if os.Geteuid() == 0 {
		want := "user: only root can start programs as another user, and hipq runs as user 65534, not as daemon"
		dbtest.Same(t, asNobody(&handler.Program{User: "daemon"}), want)
		got := asNobody(&handler.Program{User: "nobody"})
		dbtest.Ensure(t, got == "", "%v", "itself: "+got)
	}
	dbtest.Same(t, asNobody(&handler.Program{Nice: -1}), cantPrefer)
	dbtest.Same(t, asNobody(&handler.Program{Nice: 1}), "")
}

// TestRootWithoutRights: Root may lack rights, as in a container or service; then its programs have no more than others'.
func TestRootWithoutRights(t *testing.T) {
	hard, known := process.HardLimit('n')
	if os.Geteuid() != 0 || !known || hard > math.MaxInt32-1 {
		t.Skip("only root can lack rights of root's, and only a limit be in its way")
	}
	check := func(p *handler.Program) string {
		return checkedWithout(p, func() error {
			return errors.Join(unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_NICE, 0, 0, 0), unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_RESOURCE, 0, 0, 0))
		})
	}
	dbtest.Same(t, check(&handler.Program{Nice: -1}), cantPrefer)
	want := fmt.Sprintf("limits.open_files: %d is more than this host allows (ulimit -H -n: %d)", hard+1, hard)
	dbtest.Same(t, check(&handler.Program{Limits: handler.Limits{OpenFiles: int(hard) + 1}}), want)
	dbtest.Same(t, check(&handler.Program{Limits: handler.Limits{OpenFiles: int(hard)}}), "")
}

// checkedWithout is the error of CheckSurroundings in a thread that has given up rights.
func checkedWithout(p *handler.Program, giveUp func() error) string {
	said := make(chan string)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		if err := cmp.Or(giveUp(), p.CheckSurroundings()); err != nil {
			said <- err.Error()
			return
		}
		said <- ""
	}()
	return <-said
}

// TestNoNewPrivs: another user's program gains no privileges, for example by sudo, unless NewPrivs is set. The worker's own
// programs and this process can.
func TestNoNewPrivs(t *testing.T) {
	_, dir := asRoot(t)
	mine := func() string {
		status := dbtest.Must(os.ReadFile("/proc/thread-self/status"))(t)
		_, after, _ := strings.Cut(string(status), "NoNewPrivs:\t")
		return after[:1]
	}
	dbtest.SkipIf(t, mine() != "0", "nothing that starts here may gain rights")
	for name, c := range map[string]struct {
		user string
		may  bool
		want string
	}{
		"another's":             {"nobody", false, "NoNewPrivs: 1"},
		"another's, who may":    {"nobody", true, "NoNewPrivs: 0"},
		"the worker's":          {"", false, "NoNewPrivs: 0"},
		"the worker's, by name": {"root", false, "NoNewPrivs: 0"},
	} {
		for _, limits := range []handler.Limits{{}, {OpenFiles: 64}} {
			e := sh("echo $(grep NoNewPrivs /proc/self/status)")
			e.Dir, e.User, e.NewPrivs, e.Limits = dir, c.user, c.may, limits
			got := e.Handle(t.Context(), testJob())
			dbtest.Ensure(t, got.Output == c.want+"\n", "%s: %+v", name, got)
		}
	}
	var all sync.WaitGroup
	for range 64 { // as many threads as possible
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if mine() != "0" && os.Getpid() != syscall.Gettid() { // the first thread may have started it, and then stops working
				t.Error("a thread that goes on may start nothing that gains rights")
			}
		})
	}
	all.Wait()
}

// withKeyring gives this process a session keyring with a key, and prints what handlers of several users see of it.
func withKeyring(args []string) error {
	const secret = "hipq-secret"
	if len(args) == 0 { // a thread has it, and after this all have
		runtime.LockOSThread()
		_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
		if err == nil {
			_, err = unix.AddKey("user", secret, []byte("s3cret"), unix.KEY_SPEC_SESSION_KEYRING)
		}
		if err != nil {
			fmt.Println(err)
			return nil
		}
		return syscall.Exec(os.Args[0], []string{os.Args[0], "keyring", "inherited"}, os.Environ())
	}
	for _, p := range []*handler.Program{{}, {User: "nobody"}, {User: "nobody", NewPrivs: true}} {
		e := sh("grep -c " + secret + " /proc/keys; :")
		e.Dir, e.User, e.NewPrivs = "/", p.User, p.NewPrivs
		fmt.Print(e.Handle(context.Background(), testJob()).Output)
	}
	return nil
}

// TestSessionKeyring: another user's program doesn't get the keys of the session that the worker was started in.
func TestSessionKeyring(t *testing.T) {
	asRoot(t)
	out := dbtest.Must(exec.Command(os.Args[0], "keyring").Output())(t)
	if said := string(out); said == unix.EPERM.Error()+"\n" || said == unix.ENOSYS.Error()+"\n" {
		t.Skip("nothing here may have a keyring")
	}
	dbtest.Same(t, string(out), "1\n0\n0\n")
}
