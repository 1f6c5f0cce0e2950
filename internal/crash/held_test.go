package crash

import (
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// halfAMinute is how long a command may wait for others (22 s and one more lock), plus its start and end on a busy
// machine.
const halfAMinute = 30*time.Second + 10*time.Second

// wait is a command that waits for another transaction, but not for ever.
type wait struct {
	name string
	// held is that transaction's statement on MySQL. With SQLite any transaction locks the file.
	held string
	args []string
	// says is what the message must name: the thing that it waited for.
	says string
	long bool
}

var waits = []wait{
	{
		name: "a key that is just being added",
		held: "INSERT INTO crash_mail (job_type, job_key) VALUES ('quick', 'new')",
		args: []string{"enqueue", "mail", "quick", "--key", "new"}, says: "new",
	},
	{
		name: "a key that is to be replaced",
		held: "SELECT id FROM crash_mail WHERE job_type = 'quick' AND job_key = 'waiting' FOR UPDATE",
		args: []string{"enqueue", "mail", "quick", "--key", "waiting", "--on-duplicate", "replace"}, says: "waiting",
	},
	{
		name: "a type that is just being added",
		held: "INSERT INTO crash_job_types (queue, job_type) VALUES ('mail', 'latest')",
		args: []string{"enqueue", "mail", "latest"}, says: "latest", long: true,
	},
	{
		name: "a job that is held", held: "SELECT id FROM crash_mail WHERE id = 1 FOR UPDATE",
		args: []string{"cancel", "mail", "1"}, says: "1",
	},
	{
		name: "a queue that is held", held: "SELECT queue FROM crash_queues WHERE queue = 'mail' FOR UPDATE",
		args: []string{"queue", "pause", "mail"}, says: "mail", long: true,
	},
	{
		name: "an attempt that is held", held: "SELECT id FROM crash_mail WHERE job_type = 'sent' AND job_key = 'asynchronous' FOR UPDATE",
		args: []string{"complete", "mail", "sent", "asynchronous"}, says: "asynchronous",
	},
}

// TestWaits checks that a command that waits for another transaction gives up within half a minute, and names what it
// waited for. It succeeds when repeated after that transaction.
func TestWaits(t *testing.T) {
	t.Parallel()
	program := build(t)
	for _, driver := range []string{"sqlite", "mysql"} {
		t.Run(driver, func(t *testing.T) {
			for _, w := range waits {
				if !w.long || !testing.Short() {
					t.Run(w.name, func(t *testing.T) {
						t.Parallel()
						w.play(t, program, driver)
					})
				}
			}
		})
	}
}

func (w wait) play(t *testing.T, program, driver string) {
	t.Helper()
	source := sourceOf(t, driver)
	h := configure(t, program, driver, source, 0)
	h.mustRun(t, "init")
	h.mustRun(t, "enqueue", "mail", "quick", "--key", "waiting", "--in", "1h")
	h.mustRun(t, "enqueue", "mail", "sent", "--key", "asynchronous")
	h.mustRun(t, "work")
	says := []string{w.says, "another transaction"}
	if driver == "sqlite" {
		says = []string{"another process holds the database file"}
	}

	letGo := openDatabase(t, driver, source).hold(t, w.held)
	took, code, said := h.outcome(w.args...)
	letGo()
	t.Logf("%s, exit status %d: %s", took.Round(time.Second/10), code, said)
	isSilent := func(of string) bool { return !strings.Contains(said, of) }
	dbtest.Ensure(t, code == 75 && took <= halfAMinute && !slices.ContainsFunc(says, isSilent),
		"hipq %s took %s, with exit status %d, and said: %s", strings.Join(w.args, " "), took, code, said)
	took, code, said = h.outcome(w.args...)
	dbtest.Ensure(t, code == 0, "afterwards it took %s, with exit status %d, and said: %s", took, code, said)
}

// outcome runs a command and returns its duration, exit code and messages.
func (h hipq) outcome(args ...string) (took time.Duration, code int, said string) {
	var complaints bytes.Buffer
	c := h.command(args...)
	c.Stderr = &complaints
	began := time.Now()
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
		code = exit.ExitCode()
	}
	if err != nil {
		return time.Since(began), -1, err.Error()
	}
	return time.Since(began), code, complaints.String()
}
