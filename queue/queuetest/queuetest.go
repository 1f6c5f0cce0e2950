// Package queuetest tests applications that enqueue or handle jobs. It provides an instance of hipq in a SQLite file, whose
// clock the test sets. It runs production's worker while jobs are due, and has assertions about jobs.
//
// An instance takes some milliseconds to create, so give each test its own; tests may run in parallel. Tests don't wait: a
// retry in an hour runs when the test sets the clock an hour ahead.
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

// Instance is an instance of hipq in its own database, which is removed after the test. A method that can't do its work fails
// the test. Call methods from the test's goroutine, like testing.TB's FailNow.
type Instance struct {
	// Clock is the database's clock, which decides everything. It stands until the test sets it.
	Clock *Clock
	// DB is hipq's database, for queue.New in the application.
	DB *schema.DB
	// App is the application's database, for its tables, and for transactions with EnqueueTx or plain SQL. Its SQL sees Clock
	// as the time, and its transactions begin IMMEDIATE.
	App *sql.DB
	// DSN opens the same database by driver sqlite, for applications that open it themselves.
	DSN string

	t      testing.TB
	queues map[string]*Queue
}

// Start is a new instance's time: noon UTC on a Monday.
func Start() time.Time { return time.Date(2026, time.January, 5, 12, 0, 0, 0, time.UTC) }

// New makes an instance with this name, as in the config, and these queues.
func New(t testing.TB, name string, queues ...queue.Options) *Instance {
	t.Helper()
	names, err := schema.NewNames(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return NewNamed(t, names, queues...)
}

// NewNamed is New with other table names than the default.
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

// fleeting is the pragma for a file that needn't survive a crash.
const fleeting = "synchronous(off)"

// open opens a file as hipq does, but with this clock.
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

// Queue returns one of the instance's queues.
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

// templates maps DDL to a function that returns a SQLite file with these tables, as hipq init makes them. Making them takes
// ten times as long as the rest, so a process does it once.
var templates sync.Map

// template returns the file with these tables. It has the clock of the first test.
func template(ctx context.Context, clock *Clock, names schema.Names, tables []schema.Queue) ([]byte, error) {
	ddl, err := schema.DDL("sqlite", names, tables)
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx) // other tests use it too
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
	return once.(func() ([]byte, error))() //nolint:errcheck // nothing else is stored
}
