package crash

import (
	"database/sql"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// disturbance is what another client does to the workers: it vanishes within a transaction, or holds locks that they
// need.
type disturbance struct {
	name string
	// limit is the throttle limit of each queue, 0 for none.
	limit int
	// begin starts it; end ends it.
	begin func(*stage) (end func())
	// stopped is the queue that stands still meanwhile, or everything. The test measures the other queues' pace.
	stopped string
}

const everything = "everything"

// tight is a throttle limit that leaves some slots empty.
const tight = 10

var disturbances = []disturbance{
	{name: "stopped in a round", begin: stopped("status IN ('available', 'throttled')")},
	{name: "stopped as it settles", begin: stopped("status IN ('running', 'answered', 'deciding')")},
	{name: "stopped in its turn", limit: tight, begin: stopped("SET turn = turn % 1000000000 + 1")},
	{name: "stopped as it claims slots", begin: stopped("FROM hipq_tables WHERE table_name")},
	{name: "stopped as it renews its lock", begin: stopped("SET heartbeat =")},
	{name: "vanished in a round", begin: vanished("status IN ('available', 'throttled')")},
	{name: "vanished in its turn", limit: tight, begin: vanished("SET turn = turn % 1000000000 + 1")},

	{name: "due jobs are held by id", begin: held(repeatableRead, byID, due)},
	{name: "running jobs are held by id", begin: held(repeatableRead, byID, running)},
	{name: "running jobs are held by key, read committed", begin: held(readCommitted, byKey, running)},
	{name: "running jobs are held by key", begin: held(repeatableRead, byKey, running)},
	{name: "due jobs are held by key", begin: held(repeatableRead, byKey, due)},
	{name: "running jobs are enqueued again", begin: held(repeatableRead, again, running)},
	{name: "running jobs are enqueued again, read committed", begin: held(readCommitted, again, running)},
	{name: "due jobs are enqueued again", begin: held(repeatableRead, again, due)},
	{name: "a queue is held", begin: held(repeatableRead, theQueue, due)},
	{name: "a queue with a limit is held", limit: tight, begin: held(repeatableRead, theQueue, due), stopped: queues[0]},

	{name: "all tables are read only", begin: func(s *stage) func() { return s.db.readOnly(s.t) }, stopped: everything},
}

// TestDisturbed checks that no dead client and no open transaction stops a queue. Some seconds after a disturbance
// begins, the others reach their former pace. Other programs on the machine change the pace, so only make crash runs it.
func TestDisturbed(t *testing.T) {
	dbtest.Long(t, "it measures the pace of workers, which needs a quiet machine")
	t.Parallel()
	bin := build(t)
	t.Run("mysql", func(t *testing.T) {
		for _, d := range disturbances {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				source, lockFor := "", 12*time.Second
				if d.stopped == everything {
					source, lockFor = dbtest.OwnMySQL(t), time.Minute
				} else {
					source = dbtest.MySQL(t)
				}
				newStage(t, bin.own(t), source, d.limit, lockFor).play(d)
			})
		}
	})
}

// caught cuts off the victim in a transaction that has sent such statements and holds locks.
func (s *stage) caught(statements string) {
	s.t.Helper()
	s.lost = s.idOf(s.victim)
	for range 50 {
		select {
		case connection := <-s.proxy.Catch(func(sent string) bool { return strings.Contains(sent, statements) }):
			time.Sleep(breath / 10)
			if s.connection = connection; s.holds() {
				return
			}
		case <-time.After(3 * time.Minute):
			s.t.Fatalf("the victim never sent %q", statements)
		}
		s.proxy.Resume()
	}
	s.t.Fatalf("the victim never holds anything when it has sent %q", statements)
}

// holds reports whether the victim's transaction holds locks while the server waits for the victim.
func (s *stage) holds() bool {
	s.t.Helper()
	n := 0
	err := s.db.QueryRow("SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id"+
		" WHERE p.id = ? AND p.command = 'Sleep' AND t.trx_rows_locked > 0", s.connection).Scan(&n)
	must(s.t, err)
	return n > 0
}

// stopped stops the victim's process within such a transaction. Its end resumes the process.
func stopped(statements string) func(*stage) func() {
	return func(s *stage) func() {
		s.caught(statements)
		s.victim.signal(syscall.SIGSTOP)
		s.proxy.Resume()
		return func() { s.victim.signal(syscall.SIGCONT) }
	}
}

// vanished drops all traffic between the victim and the server from within such a transaction on. The victim must end by
// itself.
func vanished(statements string) func(*stage) func() {
	return func(s *stage) func() {
		s.caught(statements)
		return func() {
			select {
			case <-s.victim.ended:
			case <-time.After(5 * time.Second):
				s.t.Error("the worker that was cut off has not ended")
				s.victim.signal(syscall.SIGKILL)
			}
			s.proxy.Resume()
		}
	}
}

const repeatableRead, readCommitted = sql.LevelRepeatableRead, sql.LevelReadCommitted

// What an application may do to a job.
var (
	byID     = "SELECT id FROM " + jobsTable(queues[0]) + " WHERE id = ? FOR UPDATE"
	byKey    = "SELECT id FROM " + jobsTable(queues[0]) + " WHERE job_type = 'steady' AND job_key = ? FOR UPDATE"
	again    = "INSERT IGNORE INTO " + jobsTable(queues[0]) + " (job_type, job_key) VALUES ('steady', ?)"
	theQueue = "SELECT turn FROM " + shardsTable + " WHERE queue = '" + queues[0] + "' AND ? <> '' FOR UPDATE"
)

// Which jobs: three that start soon, or three of different workers that just started.
var (
	due     = "status = 'available' ORDER BY " + schema.ClaimOrder + " LIMIT 3 OFFSET 5"
	running = "id IN (SELECT MAX(id) FROM " + jobsTable(queues[0]) + " WHERE status IN ('locked', 'running', 'answered', 'deciding') AND " +
		"start_time > UTC_TIMESTAMP(6) - INTERVAL 1 SECOND GROUP BY worker_id) LIMIT 3"
)

// held keeps a transaction open in which an application locks or enqueues some jobs.
func held(isolation sql.IsolationLevel, what, which string) func(*stage) func() {
	return func(s *stage) func() {
		if what == again { // MySQL also locks the gap behind the key, where all new keys would go
			must(s.t, s.feed(s.t.Context(), 100))
		}
		s.touch(which)
		tx, err := s.db.BeginTx(s.t.Context(), &sql.TxOptions{Isolation: isolation})
		for id, key := range maps.Clone(s.touched) {
			if what == byKey && isolation == repeatableRead {
				s.touchNext(key)
			}
			arg := any(key)
			if what == byID {
				arg = id
			}
			if err == nil {
				_, err = tx.Exec(what, arg)
			}
		}
		must(s.t, err)
		return func() {
			err := tx.Rollback()
			dbtest.Ensure(s.t, err == nil, "%v", err)
		}
	}
}

// touch chooses three jobs of the first queue as soon as there are three.
func (s *stage) touch(which string) {
	s.t.Helper()
	for range 2000 {
		s.touched = map[int64]string{}
		err := s.db.each("SELECT id, job_key FROM "+jobsTable(queues[0])+" WHERE "+which, nil, func(rows *sql.Rows) error {
			var id int64
			var key string
			err := rows.Scan(&id, &key)
			s.touched[id] = key
			return err
		})
		must(s.t, err)
		if len(s.touched) == 3 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.t.Fatalf("there are never three jobs with %s", which)
}

// touchNext also marks the job with the next key, because its lock includes the gap before it.
func (s *stage) touchNext(key string) {
	s.t.Helper()
	var id int64
	query := "SELECT id, job_key FROM " + jobsTable(queues[0]) + " WHERE job_type = 'steady' AND job_key > ? ORDER BY job_key LIMIT 1"
	must(s.t, s.db.QueryRow(query, key).Scan(&id, &key))
	s.touched[id] = key
}
