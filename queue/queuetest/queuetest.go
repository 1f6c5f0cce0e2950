// Package queuetest is for who tests an application that enqueues jobs, or handles them: an instance of hipq in a SQLite file of
// the test's own, whose clock the test sets; the worker as it is in production, for as long as something is due; and what the
// test says of the jobs that must be there.
//
// An instance takes some milliseconds to make, so each test has one of its own, and tests may run in parallel. Nothing in it
// takes time: a job that is tried again in an hour is when the test says that it is then.
package queuetest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// Instance is an instance of hipq, named shop, in a database of its own. It is gone when its test is over. A method that can't do
// what it is for fails the test, and like testing.TB's FailNow must be called from the test's own goroutine.
type Instance struct {
	// Clock is the database's clock, which decides everything: it stands until the test sets it.
	Clock *Clock
	// DB is the database, for hipq: for a queue.New in the application.
	DB *schema.DB
	// App is the database for the application: for its tables, and for transactions in which it enqueues, by EnqueueTx or by
	// plain SQL. Its clock is Clock, also in SQL. Its transactions begin IMMEDIATE.
	App *sql.DB
	// DSN is what App has opened with the driver sqlite, for an application that opens its database itself.
	DSN string

	t      testing.TB
	queues map[string]*Queue
}

// Start is what the clock of a new instance shows: noon, UTC, of a Monday.
func Start() time.Time { return time.Date(2026, time.January, 5, 12, 0, 0, 0, time.UTC) }

// New makes an instance with these queues, and their tables.
func New(t testing.TB, queues ...queue.Options) *Instance {
	t.Helper()
	in, err := open(t, queues)
	if err != nil {
		t.Fatalf("make an instance to test with: %v", err)
	}
	return in
}

func open(t testing.TB, queues []queue.Options) (*Instance, error) {
	clock, err := newClock(Start())
	if err != nil {
		return nil, err
	}
	file := filepath.Join(t.TempDir(), "hipq.db")
	in := &Instance{Clock: clock, DSN: clock.dsn(file, 10*time.Second), t: t, queues: map[string]*Queue{}}
	if in.DB, err = connect(clock, file); err != nil {
		return nil, err
	}
	if in.App, err = sql.Open("sqlite", in.DSN); err != nil {
		return nil, err
	}
	t.Cleanup(in.close)
	var tables []schema.Queue
	for _, o := range queues {
		q, err := queue.New(in.DB, o)
		if err != nil {
			return nil, err
		}
		in.queues[o.Name] = &Queue{Queue: q, in: in}
		tables = append(tables, o.Table())
	}
	content, err := template(t.Context(), clock, tables)
	if err != nil {
		return nil, err
	}
	return in, os.WriteFile(file, content, 0o600)
}

// connect is the database in a file, as hipq has it. It connects when it is first asked for something.
func connect(clock *Clock, file string) (*schema.DB, error) {
	names, err := schema.NewNames("shop", "")
	if err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(clock.dsn(file, 250*time.Millisecond)) // as schema.Open has it
	if err != nil {
		return nil, err
	}
	return &schema.DB{DB: engine.New(connector, engine.SQLite), Names: names}, nil
}

// dsn is a database whose clock is c. Nothing in it has to outlast a crash.
func (c *Clock) dsn(file string, timeout time.Duration) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: url.Values{
		"vfs":     {c.name},
		"_txlock": {"immediate"},
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", timeout.Milliseconds()), "journal_mode(wal)", "synchronous(off)"},
	}.Encode()}).String()
}

func (in *Instance) close() {
	for _, db := range []interface{ Close() error }{in.App, in.DB} {
		if err := db.Close(); err != nil {
			in.t.Errorf("close the database of the test: %v", err)
		}
	}
}

// Queue is one of the instance's queues.
func (in *Instance) Queue(name string) *Queue {
	in.t.Helper()
	q := in.queues[name]
	if q == nil {
		in.t.Fatalf("the instance has no queue %q: give its options to New", name)
	}
	return q
}

// context is that of the test.
func (in *Instance) context() context.Context { return in.t.Context() }

// check fails the test with an error.
func (in *Instance) check(err error) {
	if err != nil {
		in.t.Helper()
		in.t.Fatal(err)
	}
}
