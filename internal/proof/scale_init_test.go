package proof

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// lockTimes measures for how long hipq init holds up an application that inserts jobs, hipq enqueue, and a worker. First
// init changes the queue's order, which copies the table on some engines. Then it adds columns, like the next layout.
func lockTimes(t *testing.T, l *large) {
	t.Helper()
	for _, c := range []struct{ what, program, before, config string }{
		{"init, another order", "hipq", "work", "order"},
		{"init, the next layout", "next", "order", "order"},
	} {
		worker := exec.Command(l.programs["hipq"], "work", "--linger", "--run-for", "1h", "--config", l.configs[c.before])
		worker.Env = append(worker.Environ(), "HIPQ_MAIL=off")
		dbtest.OK(t, worker.Start())
		time.Sleep(2 * time.Second) // until jobs run
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		insert := holdUp{codes: map[int]int{}}
		enqueue := holdUp{codes: map[int]int{}}
		all.Go(func() {
			conn, err := l.db.Conn(ctx)
			for ; err == nil && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
				insert.took(func() error {
					_, err := conn.ExecContext(context.Background(), "INSERT INTO scale_mail (job_type, job_data) VALUES ('idle', 'x')")
					return err
				})
			}
			_ = conn.Close()
		})
		all.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
				enqueue.took(func() error {
					return exec.Command(l.programs["hipq"], "enqueue", "mail", "send", "--config", l.configs[c.before]).Run()
				})
			}
		})
		time.Sleep(time.Second)
		from, began := l.clock(), time.Now()
		l.command(c.program, c.config, nil, "init")
		took, until := time.Since(began), l.clock()
		time.Sleep(time.Second)
		stop()
		all.Wait()
		_ = worker.Process.Signal(syscall.SIGTERM)
		_ = worker.Wait()
		scaleReport(t, map[string]any{
			"test": "scale", "engine": l.driver, "what": c.what, "due": l.due, "init_ms": took.Milliseconds(),
			"longest_insert_ms": insert.longest.Milliseconds(), "inserts_failed": insert.codes[-1],
			"longest_enqueue_ms": enqueue.longest.Milliseconds(), "enqueue_exits": enqueue.codes,
			"longest_without_a_result_ms": l.gap(from, until).Milliseconds(), "worker_exit": worker.ProcessState.ExitCode(),
		})
		// A layout that is changed in passing is what the queue's size must not prolong.
		dbtest.Ensure(t, c.program != "next" || insert.longest < 5*time.Second, "%s held up an application for %v", c.what, insert.longest)
	}
}

// holdUp is how long something took at most, and how often it ended with an exit code; -1 for other errors.
type holdUp struct {
	longest time.Duration
	codes   map[int]int
}

func (p *holdUp) took(do func() error) {
	began := time.Now()
	err := do()
	p.longest = max(p.longest, time.Since(began))
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		code = -1
	}
	p.codes[code]++
}

const clockLayout = "2006-01-02 15:04:05.000000"

// clock is the time of the database, as its tables have it.
func (l *large) clock() string { return time.Now().UTC().Format(clockLayout) }

// gap is the longest time between two results of jobs in this period.
func (l *large) gap(from, until string) (longest time.Duration) {
	l.t.Helper()
	text := "CAST(at AS CHAR)"
	if l.driver == "sqlite" {
		text = "CAST(at AS BLOB)"
	}
	times := l.column("SELECT "+text+" FROM scale_activity WHERE at >= ? AND at <= ? AND state = 'finished' AND kind = 'job' ORDER BY at", from, until)
	last := dbtest.Must(time.Parse(clockLayout, from))(l.t)
	for _, text := range append(times, until) {
		at := dbtest.Must(time.Parse(clockLayout, text))(l.t)
		longest, last = max(longest, at.Sub(last)), at
	}
	return longest
}
