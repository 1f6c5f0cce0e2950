// Package workers accesses the table of workers: which ones work, on which hosts, and how long their locks last.
package workers

import (
	"context"
	"slices"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Table is the table of workers of one instance. It is safe for concurrent use.
type Table struct{ db *schema.DB }

// New returns the table of workers of db's instance.
func New(db *schema.DB) *Table { return &Table{db: db} }

// Worker starts and settles jobs. The activity names it by these fields.
type Worker struct {
	ID   string
	Host string
	PID  int
	// Process is its process.Identity.
	Process string
	// ByHand says that a person started it.
	ByHand bool
	// Serves are the job types that it runs until none is left, by queue.
	Serves Serves
}

// Serves are job types by queue.
type Serves map[string][]string

// All says whether it has all of these types of a queue.
func (s Serves) All(queue string, types []string) bool {
	return !slices.ContainsFunc(types, func(name string) bool {
		return !slices.Contains(s[queue], name) && !slices.Contains(s[queue], job.AllTypes)
	})
}

func (w Worker) entry(state activity.State) activity.Entry {
	return activity.Entry{Kind: activity.Worker, State: state, WorkerID: w.ID, Host: w.Host, PID: w.PID}
}

// Row is a worker's row.
type Row struct {
	ID   string
	Host string
	PID  int
	// State is working, finished or error; error means that it died or ended with an error.
	State     string
	StartTime engine.Time `db:"start_time"`
	Heartbeat engine.Time
	// LockUntil is when its locks expire while it works.
	LockUntil engine.Time `db:"lock_until"`
	EndTime   engine.Time `db:"end_time"`
	// Slots is how many of its host's slots it holds.
	Slots int
	// Lanes is how many slots of other lanes it holds, as JSON: see ByLane.
	Lanes string
	// Accepting says that it still starts jobs.
	Accepting bool
	// ByHand says that a person started it.
	ByHand bool `db:"by_hand"`
	// Serves are the job types that it runs, as JSON. Wants is how many slots it could use while it has none.
	Serves string
	Wants  int
}

// Silent says whether a working worker missed the renewal of its lock, due after a third of the lock's time. dead is the time
// until it counts as dead.
func (r Row) Silent(now time.Time) (dead time.Duration, silent bool) {
	if r.State != "working" || now.Sub(r.Heartbeat.Time) < r.LockUntil.Sub(r.Heartbeat.Time)/2 {
		return 0, false
	}
	return max(0, r.LockUntil.Sub(now)), true
}

func (r *Table) rows(ctx context.Context, from engine.Reader, how string, args ...any) (rows []Row, err error) {
	query := "SELECT id, host, pid, state, " + r.db.SQL.TimeColumns("start_time", "heartbeat", "lock_until", "end_time") +
		", slots, lanes, accepting <> 0 AS accepting, by_hand <> 0 AS by_hand, serves, wants FROM " + r.db.Workers() + " " + how
	return rows, texts.Wrap(from.SelectContext(ctx, &rows, query, args...), "read the workers")
}

// Get returns the worker with this id, or nil if it is unknown or purged.
func (r *Table) Get(ctx context.Context, id string) (*Row, error) {
	return lastHeard(r.rows(ctx, r.db.SQL, "WHERE id = ?", id))
}

// Last returns the instance's worker that started last, except by hand; nil if there is none.
func (r *Table) Last(ctx context.Context) (*Row, error) {
	return lastHeard(r.rows(ctx, r.db.SQL, r.db.SQL.Index(r.db.Workers(), "start")+" WHERE by_hand = 0 ORDER BY "+r.db.Workers()+".start_time DESC LIMIT 1"))
}

// LastHeard returns the instance's worker with the latest heartbeat, except by hand; nil if there is none.
func (r *Table) LastHeard(ctx context.Context) (*Row, error) {
	atWork, err := r.AtWork(ctx)
	if err != nil {
		return nil, err
	}
	last, err := r.Last(ctx)
	if err != nil || last == nil {
		return nil, err
	}
	atWork = slices.DeleteFunc(atWork, func(w Row) bool { return w.ByHand })
	return lastHeard(append(atWork, *last), nil)
}

func lastHeard(rows []Row, err error) (*Row, error) {
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	last := slices.MaxFunc(rows, func(a, b Row) int { return a.Heartbeat.Compare(b.Heartbeat.Time) })
	return &last, nil
}

// AtWork returns the workers that haven't ended or been declared dead, even with expired locks, by host and start.
func (r *Table) AtWork(ctx context.Context) ([]Row, error) {
	return r.rows(ctx, r.db.SQL, r.db.SQL.Index(r.db.Workers(), "state")+" WHERE state = 'working' ORDER BY host, "+r.db.Workers()+".start_time, id")
}

// Host is a host with its workers.
type Host struct {
	Name    string
	Slots   int64
	Workers []Row
}

// Hosts returns AtWork's workers by host.
func (r *Table) Hosts(ctx context.Context) (hosts []Host, err error) {
	atWork, err := r.AtWork(ctx)
	for _, w := range atWork {
		if n := len(hosts); n == 0 || hosts[n-1].Name != w.Host {
			hosts = append(hosts, Host{Name: w.Host})
		}
		h := &hosts[len(hosts)-1]
		h.Slots, h.Workers = h.Slots+int64(w.Slots), append(h.Workers, w)
	}
	return hosts, err
}

// IsWorking says whether a worker works and hasn't been declared dead.
func (r *Table) IsWorking(ctx context.Context, from engine.Reader, id string) (working bool, err error) {
	err = from.GetContext(ctx, &working, "SELECT "+r.Working("?"), id)
	return working, texts.Wrap(err, "find out whether worker %s is at work", id)
}

// Working is an SQL condition: the worker with this id, an expression, hasn't ended or been declared dead.
func (r *Table) Working(id string) string {
	return "EXISTS (SELECT 1 FROM " + r.db.Workers() + " w " + r.db.SQL.ByKey + " WHERE w.id = " + id + " AND w.state = 'working')"
}

// Missing is SQL to find what dead workers left: a join as w by their id, an expression, and its condition. A worker is dead
// once its row says so or is gone, never by a clock.
func (r *Table) Missing(id string) (join, condition string) {
	return "LEFT JOIN " + r.db.Workers() + " w " + r.db.SQL.ByKey + " ON w.id = " + id + " AND w.state = 'working'", "w.id IS NULL"
}

// Tick is the start of a worker, except by hand.
type Tick struct {
	Host string
	At   engine.Time
	// Idle says that the worker finished without starting a job.
	Idle bool
}

// Ticks returns the ticks of all hosts in [from, to), by time.
func (r *Table) Ticks(ctx context.Context, from, to time.Time) (ticks []Tick, err error) {
	query := "SELECT host, " + r.db.SQL.TimeColumn("start_time") + " AS at, COALESCE(state = 'finished' AND started = 0, 0) AS idle FROM " +
		r.db.Workers() + " " + r.db.SQL.Index(r.db.Workers(), "start") + " WHERE start_time >= ? AND start_time < ? AND by_hand = 0 ORDER BY start_time"
	return ticks, texts.Wrap(r.db.SQL.SelectContext(ctx, &ticks, query, engine.At(from), engine.At(to)), "read the ticks")
}
