package proof

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// outage is a way in which a database doesn't serve.
type outage struct {
	driver, name string
	// own asks for a server of its own, because all its databases are affected.
	own bool
	// says is what a command that failed because of it says.
	says string
	// begin begins it in one of some ways.
	begin func(*plight) (what string, end func())
}

var outages = []outage{
	{driver: "mysql", name: "away", says: "can't be reached|does not answer", begin: (*plight).away},
	{driver: "mysql", name: "slow", says: "can't be reached|does not answer|another transaction", begin: (*plight).slow},
	{driver: "mysql", name: "read-only", own: true, says: "read-only|does not answer|another transaction", begin: (*plight).readOnly},
	{driver: "mysql", name: "full", says: "is full", begin: (*plight).full},
	{driver: "mysql", name: "connections", own: true, says: "too many connections", begin: (*plight).connections},
	{driver: "mysql", name: "deadlocks", says: "busy|another transaction|does not answer", begin: (*plight).deadlocks},
	{driver: "mysql", name: "transactions", says: "another transaction|AUTO-INC lock|does not answer|busy", begin: (*plight).transactions},
	{driver: "sqlite", name: "held", says: "holds the database file|does not answer", begin: (*plight).held},
	{driver: "sqlite", name: "read", says: "holds the database file|does not answer", begin: (*plight).read},
}

// stuckAfter is how long jobs may take after an outage.
const stuckAfter = time.Minute

// plight is a round of one outage.
type plight struct {
	*round
	proxy *dbtest.Proxy
	rng   *rand.Rand
	// as is the database as hipq's user reaches it.
	as string
	// nth counts outages of this name over all rounds of the turn.
	nth int
	// nothing says that the latest outage didn't happen.
	nothing bool
}

// outagesOf repeats one outage.
func outagesOf(r *round) {
	var some []outage
	for _, o := range outages {
		if o.driver == r.driver {
			some = append(some, o)
		}
	}
	o, p := some[(r.number-1)%len(some)], &plight{round: r, rng: r.random(30)}
	if o.own {
		r.source = dbtest.OwnMySQL(r.t)
		r.begin()
	}
	if r.driver == "mysql" {
		p.as = p.user()
		p.proxy = dbtest.ProxyTo(r.t, p.as)
		r.configure(p.proxy.Source)
	}
	r.says = regexp.MustCompile(o.says + "|lost its lock")
	r.live(workload{ticks: 2, backlog: 25}, stuckAfter, func(context.Context) {
		for n := 0; n < 12 && time.Now().Before(r.until); n++ {
			time.Sleep(time.Duration(p.rng.IntN(2000)) * time.Millisecond)
			u := p.rng.Float64() // most are short
			last := time.Second + time.Duration(u*u*float64(3*lockFor-time.Second))
			if n == 0 && r.number%3 == 1 { // no command may wait for so long
				last = within + lockFor
			}
			p.nth, p.nothing = (r.number-1)/len(some)*12+n, false
			what, end := o.begin(p)
			time.Sleep(last)
			end()
			if what = fmt.Sprintf("%s for %s: %s", o.name, last.Round(time.Millisecond), what); p.nothing {
				r.t.Log("not counted: " + what)
			} else {
				r.inject("%s", what)
			}
			p.recovers(what)
		}
	})
	later := 0
	for _, t := range r.ticks {
		if t.cmd.ProcessState.ExitCode() == 75 {
			later++
		}
	}
	r.t.Logf("%s: %d of %d ticks ended with 75", o.name, later, len(r.ticks))
}

// user makes a user for hipq who has no rights beyond the database.
func (r *round) user() string {
	c := dbtest.Must(mysql.ParseDSN(r.source))(r.t)
	c.User = c.DBName
	for _, s := range []string{"CREATE USER " + c.User, "GRANT ALL ON " + c.DBName + ".* TO " + c.User} {
		dbtest.Must(r.db.Exec(s))(r.t)
	}
	r.t.Cleanup(func() { _, _ = r.db.Exec("DROP USER " + c.User) })
	return c.FormatDSN()
}

// recovers waits until all jobs have ended that were there when the outage ended.
func (p *plight) recovers(what string) {
	newest, ended := map[string]int64{}, time.Now()
	for {
		open, failed := 0, error(nil)
		for _, q := range queues {
			if newest[q] == 0 {
				n := int64(0)
				failed = p.db.QueryRow("SELECT COALESCE(MAX(id), 0) + 1 FROM proof_" + q).Scan(&n)
				newest[q] = n
			}
			some := 0
			if failed == nil {
				failed = p.db.QueryRow("SELECT COUNT(*) FROM proof_"+q+" WHERE state <> 'final' AND id < ?", newest[q]).Scan(&some)
			}
			open += some
		}
		if open == 0 && failed == nil {
			return
		}
		if time.Since(ended) > stuckAfter {
			load, _ := os.ReadFile("/proc/loadavg")
			p.violates("%s: %d jobs wait a minute after it (%v), at a load of %.5s: %v", what, open, failed, load, p.waiting(newest))
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// waiting describes some of the jobs that have not ended.
func (p *plight) waiting(newest map[string]int64) (some []string) {
	for _, q := range queues {
		_ = p.each(fmt.Sprintf("SELECT CONCAT('%s ', id, ' ', job_type, ' is ', status, ' at ', attempt, ', losses ', losses, ', until ', COALESCE(wake_time, scheduled_run_time), ', '"+
			", error, ', weight ', throttle_factor, ' in ', shard, ', in line since ', COALESCE(asked_time, 'never')) FROM proof_%s WHERE state <> 'final' AND id < %d ORDER BY id LIMIT 3", q, q, newest[q]), func(rows *sql.Rows) error {
			text := ""
			err := rows.Scan(&text)
			some = append(some, text)
			return err
		})
	}
	_ = p.each("SELECT CONCAT_WS(' ', COUNT(*), status, 'in', shard, 'weigh', SUM(throttle_factor)) FROM proof_"+queues[0]+" WHERE live = 1 GROUP BY status, shard", func(rows *sql.Rows) error {
		text := ""
		err := rows.Scan(&text)
		some = append(some, text)
		return err
	})
	return append(some, fmt.Sprintf("%+v", p.settings))
}

func (p *plight) away() (string, func()) {
	if p.rng.IntN(2) == 0 {
		p.proxy.Stall()
		return "neither answers nor hangs up", p.proxy.Resume
	}
	p.proxy.Cut()
	return "all connections cut", p.proxy.Mend
}

func (p *plight) slow() (string, func()) {
	by := time.Duration(1+p.rng.IntN(500)) * time.Millisecond
	p.proxy.Slow(by)
	return fmt.Sprint(by, " each way"), func() { p.proxy.Slow(0) }
}

func (p *plight) readOnly() (string, func()) {
	if p.rng.IntN(3) == 0 {
		return "FLUSH TABLES WITH READ LOCK", p.session(p.source, "UNLOCK TABLES", "FLUSH TABLES WITH READ LOCK")
	}
	dbtest.Must(p.db.Exec("SET GLOBAL read_only = 1"))(p.t)
	return "read_only", func() { dbtest.Must(p.db.Exec("SET GLOBAL read_only = 0"))(p.t) }
}

// full makes some tables refuse rows with the error of a full table. A tablespace that is really full would outlast the outage,
// because the server frees its pages later, and MariaDB 10.11 aborts when a large row doesn't fit.
func (p *plight) full() (string, func()) {
	tables := p.tables()
	p.rng.Shuffle(len(tables), func(i, j int) { tables[i], tables[j] = tables[j], tables[i] })
	tables = tables[:1+p.rng.IntN(len(tables))]
	for _, t := range tables {
		dbtest.Must(p.db.Exec("CREATE TRIGGER full_" + t + " BEFORE INSERT ON " + t +
			" FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'"))(p.t)
	}
	return strings.Join(tables, ", "), func() {
		for _, t := range tables {
			dbtest.Must(p.db.Exec("DROP TRIGGER full_" + t))(p.t)
		}
	}
}

// tables are all of the instance.
func (r *round) tables() (all []string) {
	query := "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND table_name LIKE 'proof\\_%'"
	if r.driver == "sqlite" {
		query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'proof%'"
	}
	dbtest.OK(r.t, r.each(query, func(rows *sql.Rows) error {
		all = append(all, "")
		return rows.Scan(&all[len(all)-1])
	}))
	return all
}

// connections takes all connections, of hipq's user or of the server.
func (p *plight) connections() (string, func()) {
	c := dbtest.Must(mysql.ParseDSN(p.as))(p.t)
	what, limit, more := "the user's", "ALTER USER "+c.User+" WITH MAX_USER_CONNECTIONS %d", 0
	if p.rng.IntN(2) == 0 {
		what, limit, more = "the server's", "SET GLOBAL max_connections = %d", 500
	}
	own := dbtest.Must(p.db.Conn(context.Background()))(p.t) // later there may be none left
	set := func(n int) { dbtest.Must(own.ExecContext(context.Background(), fmt.Sprintf(limit, n)))(p.t) }
	set(10)
	ends := []func(){func() { set(more); _ = own.Close() }}
	db := dbtest.Must(sql.Open("mysql", p.as))(p.t)
	for range 10 {
		if c, err := db.Conn(context.Background()); err == nil && c.PingContext(context.Background()) == nil {
			ends = append(ends, func() { _ = c.Close() })
		}
	}
	p.nothing = len(ends) == 1
	return fmt.Sprintf("%d of %s 10", len(ends)-1, what), func() {
		for _, end := range ends {
			end()
		}
		_ = db.Close()
	}
}

// deadlocks updates jobs in opposite orders.
func (p *plight) deadlocks() (string, func()) {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var deadlocks atomic.Int32
	clients := 2 + p.rng.IntN(4)
	for n := range clients {
		rng := rand.New(rand.NewPCG(p.rng.Uint64(), 0))
		all.Go(func() {
			for ctx.Err() == nil {
				if p.updates(ctx, queues[rng.IntN(len(queues))], n%2 == 0, time.Duration(rng.IntN(20))*time.Millisecond) {
					deadlocks.Add(1)
				}
			}
		})
	}
	return fmt.Sprint(clients, " clients"), func() {
		stop()
		all.Wait()
		p.t.Logf("%d deadlocks of %d clients", deadlocks.Load(), clients)
		p.nothing = deadlocks.Load() == 0
	}
}

// updates updates the oldest jobs of a queue by key in one transaction, unless that ends in a deadlock.
func (p *plight) updates(ctx context.Context, queue string, ascending bool, pause time.Duration) (deadlock bool) {
	var ids []int64
	err := p.each("SELECT id FROM proof_"+queue+" WHERE state <> 'final' ORDER BY id LIMIT 10", func(rows *sql.Rows) error {
		ids = append(ids, 0)
		return rows.Scan(&ids[len(ids)-1])
	})
	if err != nil || len(ids) == 0 {
		time.Sleep(pause)
		return false
	}
	if !ascending {
		slices.Reverse(ids)
	}
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return false
	}
	defer func() { _ = tx.Commit() }()
	for _, id := range ids {
		if _, err := tx.Exec("UPDATE proof_"+queue+" SET priority = priority WHERE id = ?", id); err != nil {
			return strings.Contains(err.Error(), "1213")
		}
		time.Sleep(pause)
	}
	return false
}

// transactions opens a transaction of an application, on one table after the other.
func (p *plight) transactions() (string, func()) {
	tables := p.tables()
	one := tables[(p.nth+p.nth/6)%len(tables)]
	switch p.nth % 6 {
	case 0:
		return "rows of all tables", p.session(p.source, "ROLLBACK", append([]string{"BEGIN"}, each("SELECT * FROM %s LIMIT 20 FOR UPDATE", tables)...)...)
	case 1:
		return "all rows of " + one, p.session(p.source, "ROLLBACK", "BEGIN", "SELECT * FROM "+one+" FOR UPDATE")
	case 2:
		return "a snapshot of all tables", p.session(p.source, "ROLLBACK", append([]string{"START TRANSACTION WITH CONSISTENT SNAPSHOT"},
			each("SELECT COUNT(*) FROM %s", tables)...)...)
	case 3:
		return "LOCK TABLES " + one + " WRITE", p.session(p.source, "UNLOCK TABLES", "LOCK TABLES "+one+" WRITE")
	case 4:
		return "LOCK TABLES of all READ", p.session(p.source, "UNLOCK TABLES", "LOCK TABLES "+strings.Join(each("%s READ", tables), ", "))
	}
	// everybody waits behind the ALTER, and it for the reader
	end := p.session(p.source, "ROLLBACK", "BEGIN", "SELECT COUNT(*) FROM "+one)
	altered := make(chan error, 1)
	go func() {
		_, err := p.db.Exec("ALTER TABLE " + one + " COMMENT 'altered'")
		altered <- err
	}()
	return "an ALTER of " + one + " waits", func() {
		end()
		err := <-altered
		dbtest.Ensure(p.t, err == nil, "%v", err)
	}
}

func each(format string, names []string) (all []string) {
	for _, n := range names {
		all = append(all, fmt.Sprintf(format, n))
	}
	return all
}

// held holds SQLite's file.
func (p *plight) held() (string, func()) {
	return "BEGIN IMMEDIATE", p.session("file:"+p.source+"?_pragma=busy_timeout(20000)", "ROLLBACK", "BEGIN IMMEDIATE")
}

// read keeps an old state of SQLite's file.
func (p *plight) read() (string, func()) {
	return "a reader", p.session("file:"+p.source+"?_pragma=busy_timeout(20000)", "ROLLBACK", "BEGIN", "SELECT COUNT(*) FROM proof_files")
}

// session runs statements on a connection of their own, and last on it at the end.
func (p *plight) session(source, last string, statements ...string) (end func()) {
	db := dbtest.Must(sql.Open(p.driver, source))(p.t)
	c := dbtest.Must(db.Conn(context.Background()))(p.t)
	for n := 0; n < len(statements); n++ {
		switch _, err := c.ExecContext(context.Background(), statements[n]); {
		case err != nil && strings.Contains(err.Error(), "1213"):
			n = -1 // an application that loses a deadlock begins its transaction again
		case err != nil:
			p.t.Errorf("%s: %v", statements[n], err)
		}
	}
	return func() {
		_, err := c.ExecContext(context.Background(), last)
		dbtest.Ensure(p.t, err == nil, "%s: %v", last, err)
		_ = c.Close()
		_ = db.Close()
	}
}
