package crash

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestSQLWorkers has workers in Python and PHP, those of examples/sql, drain queues beside hipq work. They speak the stored
// procedures alone. Some are killed, in the middle of a job and between grab and start, and some come back when another runs
// their job. The invariants hold as they do among hipq's own workers.
func TestSQLWorkers(t *testing.T) {
	python, php, bin := dbtest.Client(t, "python"), dbtest.Client(t, "php"), build(t)
	examples, err := filepath.Abs("../../examples/sql")
	if err != nil {
		t.Fatal(err)
	}
	late := invariant{"I5", "what comes too late changes nothing", someCameLate}
	share := invariant{"I4", "workers in each language do their share", eachDidItsShare}
	for name, p := range map[string]plan{
		"without a limit": {
			size:       wanted(size{jobs: 2000, kills: 30}, size{jobs: 300, kills: 3}),
			otherKills: 2, workers: 6, backlog: 200, invent: (*book).inventLate, invariants: append([]invariant{late, share}, invariants...),
		},
		"throttled": {
			size:       wanted(size{kills: 15, rounds: 1000}, size{kills: 2, rounds: 150}),
			otherKills: 2, workers: 8, backlog: 100, limit: throttleLimit, invent: (*book).inventWeighted, invariants: append([]invariant{
				share,
				{"rows", "what runs is never more than the limit", rowsKeepLimit},
				{"ledger", "the handlers that live at once never weigh more than the limit", handlersKeepLimit},
			}, invariants...),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
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

// sqlWorker gives what starts a worker of the examples, for one of the queues.
func (r *run) sqlWorker(source, examples, interpreter, script string) func() *exec.Cmd {
	c, err := mysql.ParseDSN(source)
	if err != nil {
		r.t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		r.t.Fatal(err)
	}
	// with hipq's variable the process is known for one of this test
	env := append(os.Environ(), "HIPQ_CONFIG="+r.hipq.config, "DB_HOST="+host, "DB_PORT="+port, "DB_USER="+c.User, "DB_PASSWORD="+c.Passwd,
		"DB_NAME="+c.DBName)
	rng, started := r.random(7), 0
	return func() *exec.Cmd {
		started++
		cmd := exec.Command(interpreter, filepath.Join("testdata", "sql", script), examples, r.hipq.ledger, queues[started%len(queues)],
			fmt.Sprint(shortestLock.Seconds()), fmt.Sprint(5+rng.IntN(15)))
		cmd.Env = env
		return cmd
	}
}

// inventLate makes up jobs of all kinds, and now and then one whose worker comes back in the midst of the next attempt.
func (b *book) inventLate() spec {
	if b.invented%15 != 0 {
		return b.invent()
	}
	s := b.named()
	s.steps = []step{{Do: doLate}, {Do: doExit1, MS: 5 * slow}, {Do: doDone}}
	return s
}

// eachDidItsShare (I4): of hipq work, and of each of the other languages, some have done jobs.
func eachDidItsShare(c *record) (bad []string, checked string) {
	language, done := map[int]string{}, map[string]int{}
	for _, w := range c.fleet.over {
		name := filepath.Base(w.cmd.Path)
		done[name] += 0
		if w.cmd.Path != c.fleet.hipq.program {
			language[w.cmd.Process.Pid] = name
		}
	}
	for _, e := range c.ledger {
		if e.event != "done" {
			continue
		}
		name, ok := language[e.pid]
		if !ok {
			name = filepath.Base(c.fleet.hipq.program)
		}
		done[name]++
	}
	for name, n := range done {
		if n == 0 {
			bad = append(bad, name+" has done nothing")
		}
	}
	return bad, fmt.Sprintf("jobs done: %v", done)
}

// someCameLate (I5, besides what the other invariants see): there were such, and each was refused.
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
