package queue_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// count gives the same database on connections that count the statements sent on them.
func count(t *testing.T, db *schema.DB, source string) (*schema.DB, *atomic.Int64) {
	t.Helper()
	c := counting{driver: db.Driver(), source: "file:" + source + "?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)"}
	c.statements = new(atomic.Int64)
	if db.Name == "mysql" {
		cfg := must[*mysql.Config](t)(mysql.ParseDSN(source))
		cfg.InterpolateParams, cfg.MultiStatements, cfg.ClientFoundRows = true, true, true
		c.source = cfg.FormatDSN()
	}
	counted := *db
	counted.DB = sqlx.NewDb(sql.OpenDB(c), db.DriverName())
	t.Cleanup(func() { _ = counted.Close() })
	return &counted, c.statements
}

// counting makes connections that count.
type counting struct {
	driver     driver.Driver
	source     string
	statements *atomic.Int64
}

// Driver implements driver.Connector.
func (c counting) Driver() driver.Driver { return c.driver }

// Connect implements driver.Connector.
func (c counting) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.source)
	if err != nil {
		return nil, err
	}
	return countingConn{conn, c.statements}, nil
}

type countingConn struct {
	driver.Conn
	statements *atomic.Int64
}

// several statements that are sent together count one by one.
func (c countingConn) count(query string) { c.statements.Add(int64(1 + strings.Count(query, ";"))) }

// QueryContext implements driver.QueryerContext.
func (c countingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.count(query)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

// ExecContext implements driver.ExecerContext.
func (c countingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.count(query)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

// BeginTx implements driver.ConnBeginTx.
func (c countingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

// A round costs as many statements with many job types as with one.
func TestRoundOfManyTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("one worker has no races")
	}
	for name, change := range map[string]func(*queue.Options){
		"plain":  func(*queue.Options) {},
		"limit":  func(o *queue.Options) { o.ThrottleLimit = 1000 },
		"groups": byRegion(1000, map[string]int{"*": 15}),
		"rate":   func(o *queue.Options) { o.Rate.Starts, o.Rate.Per = 1000, 1e12 },
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, driver, source string) {
				var costs [][]int64
				for _, n := range []int{1, 20} {
					costs = append(costs, roundsOfTypes(t, driver, source, change, n))
				}
				if !slices.Equal(costs[0], costs[1]) {
					t.Errorf("the rounds with one type sent %v statements, with 20 %v", costs[0], costs[1])
				}
				t.Logf("statements %v", costs[0])
			})
		})
	}
}

// roundsOfTypes gives how many statements some rounds send in a queue with n job types.
func roundsOfTypes(t *testing.T, driver, source string, change func(*queue.Options), n int) (costs []int64) {
	t.Helper()
	o := queue.Options{Name: fmt.Sprint("of_", n)}
	var types []string
	for i := range n {
		types = append(types, fmt.Sprint("type-", i))
		o.Types = append(o.Types, job.DefaultType(types[i]))
	}
	change(&o)
	db := dbtest.Open(t, driver, source, "emails", o.Name)
	counted, counter := count(t, db, source)
	s := openStore(t, counted, o)
	s.hire("w")
	add := func() {
		for i := range 40 {
			s.add(job.New{Type: types[i%n], Data: fmt.Sprintf(`{"to": {"region": "%d"}}`, i%2)})
		}
	}
	add()
	candidates := s.Candidates(types)
	var jobs []*job.Job
	for i := range 5 {
		if i == 4 {
			add() // at the end of the line it looks at the head again
		}
		r := s.newRound("w", 10, settled(finished, jobs...)...)
		if len(jobs) > 0 {
			r.Settle[0].Outcome = job.Outcome{Verdict: job.Failed, Error: "boo"}
		}
		r.Candidates = candidates
		before := counter.Load()
		jobs = s.do(r).Started
		costs = append(costs, counter.Load()-before)
		if len(jobs) != 10 {
			t.Errorf("%d types: round %d started %d", n, i, len(jobs))
		}
	}
	return costs
}
