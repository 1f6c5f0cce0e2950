// Package queuetest is for who tests an application that enqueues jobs, or handles them: an instance of hipq in a SQLite file
// of the test's own, whose clock the test sets; the worker as it is in production, for as long as something is due; and what
// the test says of the jobs that must be there.
//
// An instance takes some milliseconds to make, so each test has one of its own, and tests may run in parallel. Nothing in it
// takes time: a job that is tried again in an hour is when the test says that it is then.
package queuetest

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of App

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// Instance is an instance of hipq in a database of its own. It is gone when its test is over. A method that can't do what it is
// for fails the test, and like testing.TB's FailNow must be called from the test's own goroutine.
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

// New makes an instance of this name, as the config's name is, with these queues and their tables.
func New(t testing.TB, name string, queues ...queue.Options) *Instance {
	t.Helper()
	names, err := schema.NewNames(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return NewNamed(t, names, queues...)
}

// NewNamed is like New, but the instance's tables have other names than those by default.
func NewNamed(t testing.TB, names schema.Names, queues ...queue.Options) *Instance {
	t.Helper()
	in, err := open(t, names, queues)
	if err != nil {
		t.Fatalf("make an instance to test with: %v", err)
	}
	return in
}

func open(t testing.TB, names schema.Names, queues []queue.Options) (*Instance, error) {
	var tables []schema.Queue
	for _, o := range queues {
		tables = append(tables, o.Table())
	}
	clock, err := newClock(Start())
	if err != nil {
		return nil, err
	}
	content, err := template(t.Context(), clock, names, tables)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(t.TempDir(), "hipq.db")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, err
	}
	in := &Instance{Clock: clock, DSN: clock.dsn(file), t: t, queues: map[string]*Queue{}}
	if in.DB, err = clock.open(t.Context(), file, names); err != nil {
		return nil, err
	}
	if in.App, err = sql.Open("sqlite", in.DSN); err != nil {
		_ = in.DB.Close()
		return nil, err
	}
	t.Cleanup(in.close)
	for _, o := range queues {
		q, err := queue.New(in.DB, o)
		if err != nil {
			return nil, err
		}
		in.queues[o.Name] = &Queue{Queue: q, in: in}
	}
	return in, nil
}

// fleeting is the pragma for a file of which nothing has to outlast a crash.
const fleeting = "synchronous(off)"

// open opens a file as hipq does, but by this clock.
func (c *Clock) open(ctx context.Context, file string, names schema.Names) (*schema.DB, error) {
	return schema.Open(ctx, schema.Options{
		Driver: "sqlite", Path: file, Create: true, Parameters: url.Values{"vfs": {c.name}, "_pragma": {fleeting}},
	}, names)
}

func (c *Clock) dsn(file string) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: url.Values{
		"vfs": {c.name}, "_txlock": {"immediate"}, "_pragma": {"busy_timeout(20000)", fleeting},
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

func (in *Instance) context() context.Context { return in.t.Context() }

func (in *Instance) check(err error) {
	if err != nil {
		in.t.Helper()
		in.t.Fatal(err)
	}
}

// templates has, by what is in it, a function that gives SQLite's file with the tables of an instance, as hipq init makes them.
// To make them takes ten times as long as all else, so a process does it once, whatever number of tests it has.
var templates sync.Map

// template is the file with these tables. Its clock is that of the test which comes first.
func template(ctx context.Context, clock *Clock, names schema.Names, tables []schema.Queue) ([]byte, error) {
	ddl, err := schema.DDL("sqlite", names, tables)
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx) // others have a use for it too
	once, _ := templates.LoadOrStore(ddl, sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "queuetest")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		file := filepath.Join(dir, "hipq.db")
		db, err := clock.open(ctx, file, names)
		if err != nil {
			return nil, err
		}
		_, err = db.Migrate(ctx, tables)
		if err = errors.Join(err, db.Close()); err != nil {
			return nil, err
		}
		return os.ReadFile(file)
	}))
	return once.(func() ([]byte, error))() //nolint:errcheck // nothing else is ever stored
}
