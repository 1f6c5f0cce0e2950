package crash

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/hipq/hipq/internal/dbtest"
)

// database reads hipq's tables with its own SQL, so that the tested code is not its own witness.
type database struct {
	*sql.DB
	// now is the SQL for the database's clock.
	now    string
	sqlite bool
}

// must ends a test with an error.
var must = dbtest.OK

const (
	workersTable  = "crash_workers"
	activityTable = "crash_activity"
	shardsTable   = "crash_shards"
)

func jobsTable(queue string) string { return "crash_" + queue }

func openDatabase(t *testing.T, driver, source string) *database {
	t.Helper()
	d := &database{now: "UTC_TIMESTAMP(6)"}
	if driver == "sqlite" {
		d.sqlite = true
		d.now = "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"
		source = "file:" + source + "?_pragma=busy_timeout(20000)"
	}
	db := dbtest.Must(sql.Open(driver, source))(t)
	d.DB = db
	t.Cleanup(func() { _ = db.Close() })
	return d
}

// sourceOf creates a database.
func sourceOf(t *testing.T, driver string) string {
	t.Helper()
	if driver == "sqlite" {
		return dbtest.SQLite(t)
	}
	return dbtest.MySQL(t)
}

// each calls scan for each row of a query.
func (d *database) each(query string, args []any, scan func(*sql.Rows) error) error {
	return dbtest.Read(context.Background(), d, query, args, scan)
}

// open counts the jobs that are not final.
func (d *database) open() (n int, err error) {
	for _, q := range queues {
		some := 0
		err = errors.Join(err, d.QueryRow("SELECT COUNT(*) FROM "+jobsTable(q)+" WHERE state <> 'final'").Scan(&some))
		n += some
	}
	return n, err
}

// working counts the workers that have neither signed off nor been found dead.
func (d *database) working() (n int, err error) {
	err = d.QueryRow("SELECT COUNT(*) FROM " + workersTable + " WHERE state = 'working'").Scan(&n)
	return n, err
}

// slots is the number of slots of all workers that count as alive.
func (d *database) slots() (n int, err error) {
	err = d.QueryRow("SELECT COALESCE(SUM(slots), 0) FROM " + workersTable + " WHERE state = 'working' AND lock_until > " + d.now).Scan(&n)
	return n, err
}

// workerOf returns the id of the worker with this pid, or "" before it has registered.
func (d *database) workerOf(pid int) (id string, err error) {
	err = d.QueryRow("SELECT id FROM "+workersTable+" WHERE pid = ? AND state = 'working' ORDER BY start_time DESC LIMIT 1", pid).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, err
}

func (d *database) workerState(id string) (state string, err error) {
	err = d.QueryRow("SELECT state FROM "+workersTable+" WHERE id = ?", id).Scan(&state)
	return state, err
}

// rounds counts the rounds of workers in queues with a throttle limit.
func (d *database) rounds() (n int, err error) {
	err = d.QueryRow("SELECT COALESCE(SUM(turn), 0) FROM " + shardsTable + " WHERE queue <> 'NONE'").Scan(&n)
	return n, err
}

// insert adds a job as an application may: two columns suffice; the key identifies the job for the test.
func (d *database) insert(s spec) error {
	columns, values := "job_type, job_data, job_key", []any{s.jobType, s.data(), s.key}
	if s.weight != usual {
		columns, values = columns+", throttle_factor", append(values, s.weight)
	}
	_, err := d.Exec("INSERT INTO "+jobsTable(s.queue)+" ("+columns+") VALUES (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
	return err
}

// held returns the jobs that a worker has locked, runs, or decides about.
func (d *database) held(worker string) (jobs []row, err error) {
	for _, q := range queues {
		some, e := d.jobs(q, "WHERE status IN ('locked', 'running', 'answered', 'deciding') AND worker_id = ?", worker)
		jobs, err = append(jobs, some...), errors.Join(err, e)
	}
	return jobs, err
}

// running counts the running jobs of each process that has jobs.
func (d *database) running() (pids map[int]int, err error) {
	pids = map[int]int{}
	for _, q := range queues {
		query := "SELECT w.pid, SUM(j.state NOT IN ('initial', 'retry')) FROM " + jobsTable(q) + " j JOIN " + workersTable +
			" w ON w.id = j.worker_id WHERE j.status IN ('locked', 'running', 'answered', 'deciding') AND w.state = 'working' GROUP BY w.pid"
		err = errors.Join(err, d.each(query, nil, func(rows *sql.Rows) error {
			pid, n := 0, 0
			err := rows.Scan(&pid, &n)
			pids[pid] += n
			return err
		}))
	}
	return pids, err
}

// again rereads jobs.
func (d *database) again(jobs []row) (now []row, err error) {
	for _, q := range queues {
		var ids []string
		for _, j := range jobs {
			if j.queue == q {
				ids = append(ids, fmt.Sprint(j.id))
			}
		}
		if len(ids) == 0 {
			continue
		}
		some, e := d.jobs(q, "WHERE id IN ("+strings.Join(ids, ",")+")")
		now, err = append(now, some...), errors.Join(err, e)
	}
	return now, err
}

// jobID names a job.
type jobID struct {
	queue string
	id    int64
}

func (j jobID) String() string { return fmt.Sprintf("%s %d", j.queue, j.id) }

// row is a job as its table has it.
type row struct {
	jobID
	jobType, key                 string
	state, status, error, result string
	worker, token                string
	attempt, weight              int
	created, updated             string
}

func (r row) name() name { return name{queue: r.queue, jobType: r.jobType, key: r.key} }

func (d *database) jobs(queue, where string, args ...any) (jobs []row, err error) {
	query := "SELECT id, job_type, job_key, state, status, error, result, worker_id, lock_token, attempt, COALESCE(throttle_factor, -1), create_time, update_time FROM " +
		jobsTable(queue) + " " + where
	err = d.each(query, args, func(rows *sql.Rows) error {
		r := row{jobID: jobID{queue: queue}}
		err := rows.Scan(&r.id, &r.jobType, &r.key, &r.state, &r.status, &r.error, &r.result, &r.worker, &r.token, &r.attempt, &r.weight, &r.created, &r.updated)
		jobs = append(jobs, r)
		return err
	})
	return jobs, err
}

// layout is the format of times in both engines.
const layout = "2006-01-02 15:04:05.000000"

// clock returns how far the database's clock is ahead of ours, and how precisely that is known.
func (d *database) clock() (ahead, tolerance time.Duration, err error) {
	var text string
	before := time.Now()
	err = d.QueryRow("SELECT " + d.now).Scan(&text)
	took := time.Since(before)
	if err != nil {
		return 0, 0, err
	}
	now, err := time.Parse(layout, text)
	return now.Sub(before.Add(took / 2)), took/2 + 2*time.Millisecond, err
}

// stuck reports whether a transaction stays open, because its worker was stopped. In SQLite it blocks everyone, in MySQL
// all who need its rows.
func (d *database) stuck() (bool, error) {
	const breath = 300 * time.Millisecond
	if d.sqlite {
		// SQLite reports a locked log only after 10 s, too late for all others that wait
		type answer struct {
			busy bool
			err  error
		}
		answers := make(chan answer, 1)
		go func() {
			busy, err := d.fileBusy(breath)
			answers <- answer{busy, err}
		}()
		select {
		case a := <-answers:
			return a.busy, a.err
		case <-time.After(2 * time.Second):
			return true, nil
		}
	}
	before, err := d.transactions()
	if err != nil {
		return false, err
	}
	time.Sleep(breath)
	after, err := d.transactions()
	for id := range after {
		if before[id] {
			return true, err
		}
	}
	return false, err
}

// fileBusy reports whether SQLite's write lock stays taken for so long.
func (d *database) fileBusy(patience time.Duration) (bool, error) {
	ctx := context.Background()
	conn, err := d.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout(%d)", patience.Milliseconds())); err != nil {
		return false, err
	}
	_, busy := conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	if busy == nil {
		_, err = conn.ExecContext(ctx, "ROLLBACK")
	}
	_, e := conn.ExecContext(ctx, "PRAGMA busy_timeout(20000)")
	return busy != nil, errors.Join(err, e)
}

// transactions returns the transactions in the test's database that hold locks.
func (d *database) transactions() (map[string]bool, error) {
	ids := map[string]bool{}
	query := "SELECT t.trx_id FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id" +
		" WHERE p.db = DATABASE() AND t.trx_rows_locked + t.trx_rows_modified > 0"
	err := d.each(query, nil, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids[id] = true
		return err
	})
	return ids, err
}

// session runs statements on a separate connection. letGo runs end on it.
func (d *database) session(t *testing.T, end string, begin ...string) (letGo func()) {
	t.Helper()
	conn := dbtest.Must(d.Conn(context.Background()))(t)
	for _, s := range begin {
		dbtest.Must(conn.ExecContext(t.Context(), s))(t)
	}
	return func() {
		_, err := conn.ExecContext(context.Background(), end)
		err = errors.Join(err, conn.Close())
		dbtest.Ensure(t, err == nil || errors.Is(err, sql.ErrConnDone), "%v", err)
	}
}

// hold keeps a transaction with this statement open until letGo.
func (d *database) hold(t *testing.T, statement string) (letGo func()) {
	t.Helper()
	if d.sqlite {
		return d.session(t, "ROLLBACK", "BEGIN IMMEDIATE")
	}
	return d.session(t, "ROLLBACK", "BEGIN", statement)
}
