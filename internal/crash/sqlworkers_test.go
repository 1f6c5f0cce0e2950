package crash

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestSQLWorkers drains queues with hipq work and with the Python and PHP workers of examples/sql, which use only the
// stored procedures. Some are killed during a job or between claim and start, some settle jobs late. The invariants are
// those of hipq's own workers.
func TestSQLWorkers(t *testing.T) {
	python, php, bin := dbtest.Client(t, "python"), dbtest.Client(t, "php"), build(t)
	examples := dbtest.Must(filepath.Abs("../../examples/sql"))(t)
	late := invariant{"I5", "what comes too late changes nothing", someCameLate}
	shared := invariant{"I4", "workers in each language do their share", eachDidItsShare}
	for name, p := range map[string]plan{
		"without a limit": {
			size:       wanted(size{jobs: 1000, kills: 20}, size{jobs: 300, kills: 3}),
			otherKills: 2, workers: 6, backlog: 200, late: true, invent: (*book).inventLate, invariants: append([]invariant{late, shared}, invariants...),
		},
		"throttled": {
			size:       wanted(size{kills: 15, rounds: 1000}, size{kills: 2, rounds: 150}),
			otherKills: 2, workers: 8, backlog: 100, limit: throttleLimit, invent: (*book).inventWeighted,
			invariants: slices.Concat([]invariant{shared}, limited, invariants),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			source := dbtest.MySQL(t)
			r := newRun(t, p, bin.own(t), "mysql", source, chosenSeed())
			r.fleet.aim = true
			r.fleet.others = []func() *exec.Cmd{
				r.sqlWorker(source, examples, python, "worker.py"),
				r.sqlWorker(source, examples, php, "worker.php"),
			}
			r.run()
		})
	}
}

// sqlWorker returns a function that creates a worker of the examples for one queue.
func (r *run) sqlWorker(source, examples, interpreter, script string) func() *exec.Cmd {
	c, err := mysql.ParseDSN(source)
	must(r.t, err)
	host, port, err := net.SplitHostPort(c.Addr)
	must(r.t, err)
	// HIPQ_CONFIG marks the process as one of this test
	env := append(os.Environ(), "HIPQ_CONFIG="+r.hipq.config,
		"DB_HOST="+host, "DB_PORT="+port, "DB_USER="+c.User, "DB_PASSWORD="+c.Passwd, "DB_NAME="+c.DBName)
	rng, started := r.random(7), 0
	return func() *exec.Cmd {
		started++
		cmd := exec.Command(interpreter, filepath.Join("testdata", "sql", script), examples, r.hipq.ledger, queues[started%len(queues)],
			fmt.Sprint(shortestLock.Seconds()), fmt.Sprint(5+rng.IntN(15)))
		cmd.Env = env
		return cmd
	}
}

// inventLate makes up jobs like invent, and sometimes one whose worker settles it during the next attempt.
func (b *book) inventLate() spec {
	if b.invented%30 != 0 {
		return b.invent()
	}
	s := b.named()
	s.steps = []step{{Do: doLate}, {Do: doExit1, MS: 5 * slow}, {Do: doDone}}
	return s
}

// share is how many jobs workers in each language must do. Jobs are enqueued until then.
const share = 5

// othersDidTheirShare reports whether workers in all other languages have done enough.
func (r *run) othersDidTheirShare() bool {
	if len(r.fleet.others) == 0 {
		return true
	}
	ledger, err := readLedger(r.hipq.ledger)
	if err != nil {
		return false // a line is being written
	}
	if r.late && !r.fleet.late(ledger) {
		return false
	}
	done := r.fleet.done(ledger)
	return len(done) > len(r.fleet.others) && slices.Min(slices.Collect(maps.Values(done))) >= share
}

// done counts the finished jobs by the workers' program.
func (f *fleet) done(ledger []entry) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	program, done := map[int]string{}, map[string]int{}
	for _, w := range slices.Concat(f.live, f.over) {
		name := filepath.Base(w.cmd.Path)
		program[w.cmd.Process.Pid], done[name] = name, 0
	}
	for _, e := range ledger {
		if e.event != "done" {
			continue
		}
		name, known := program[e.pid]
		if !known {
			name = filepath.Base(f.hipq.program) // its handler noted it
		}
		done[name]++
	}
	return done
}

// eachDidItsShare (I4) checks hipq work and each other language.
func eachDidItsShare(c *record) (bad []string, checked string) {
	done := c.fleet.done(c.ledger)
	for name, n := range done {
		if n < share {
			bad = append(bad, fmt.Sprintf("%s has done %d", name, n))
		}
	}
	return bad, fmt.Sprintf("jobs done: %v", done)
}

// late reports whether a worker that was not killed settles a job late.
func (f *fleet) late(ledger []entry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(ledger, func(e entry) bool {
		return e.event == "late" && slices.ContainsFunc(slices.Concat(f.live, f.over), func(w *worker) bool {
			return w.cmd.Process.Pid == e.pid && !w.killed
		})
	})
}

// someCameLate (I5) checks that late settlements happened. The other invariants check that they changed nothing.
func someCameLate(c *record) (bad []string, checked string) {
	came := 0
	for _, w := range c.fleet.over {
		said := w.stderr.String()
		came += strings.Count(said, "late for ")
	}
	if came == 0 {
		bad = append(bad, "nobody came late: the test has lost its bite")
	}
	return bad, fmt.Sprintf("%d came late", came)
}
