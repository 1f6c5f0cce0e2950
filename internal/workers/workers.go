// Package workers accesses the table of workers: which ones work, on which hosts, and how long their locks last. life.go
// has a worker's life: it registers, renews its lock, ends, or is declared dead by another.
package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
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

// Lane is the name of the lane of a queue, or of one of its job types, with its own concurrency.
func Lane(queue, jobType string) string {
	if jobType == "" {
		return queue
	}
	return queue + "/" + jobType
}

// ByLane returns the worker's slots by lane; "" is the lane of all jobs. Unreadable lanes count as none.
func (r Row) ByLane() map[string]int {
	var byLane map[string]int
	if r.Lanes == activity.None || json.Unmarshal([]byte(r.Lanes), &byLane) != nil || byLane == nil {
		byLane = map[string]int{}
	}
	byLane[""] = r.Slots
	return byLane
}

// SlotWish is how many slots of a lane a worker wants, and how many are in use. Limit is the lane's limit on the host.
type SlotWish struct{ Want, InUse, Limit int }

// TakeSlots takes the slots that this host's other live workers leave of each lane. It keeps at least those in use, because
// the others may have a higher limit. accepting tells the others whether the worker still starts jobs. served are the types that
// others run which hold slots and still start jobs. If those don't run all of due, and the worker gets no slot, its row says how
// many it wants. Claiming workers take turns.
func (r *Table) TakeSlots(ctx context.Context, w Worker, wishes map[string]SlotWish, due Serves, accepting bool) (got map[string]int, served Serves, err error) {
	err = r.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		if err := r.takeTurn(ctx, tx, w.Host); err != nil {
			return err
		}
		rows, err := r.rows(ctx, tx, "WHERE state = 'working' AND lock_until > ? AND host = ? AND id <> ?",
			engine.At(tx.Now), w.Host, w.ID)
		if err != nil {
			return err
		}
		others := map[string]int{}
		got, served = map[string]int{}, Serves{}
		for _, row := range rows {
			for lane, n := range row.ByLane() {
				others[lane] += n
			}
			if !row.Accepting || row.Slots < 1 {
				continue
			}
			of := due // what an unknown program runs is unknown, too
			if row.Serves != activity.None {
				of = Serves{}
				_ = json.Unmarshal([]byte(row.Serves), &of)
			}
			for queue, types := range of {
				served[queue] = append(served[queue], types...)
			}
		}
		for lane, c := range wishes {
			got[lane] = max(c.InUse, min(c.Want, c.Limit-others[lane]))
		}
		for lane, c := range wishes { // no more of a lane than can run at all
			got[lane] = max(c.InUse, min(got[lane], got[""]))
		}
		wants := 0
		for queue, types := range due {
			if got[""] == 0 && !served.All(queue, types) {
				wants = wishes[""].Want
			}
		}
		own := maps.Clone(got)
		delete(own, "")               // that is the column slots
		lanes, _ := json.Marshal(own) // numbers by names
		return tx.Write(ctx, "UPDATE "+r.db.Workers()+" SET slots = ?, lanes = ?, accepting = ?, wants = ? WHERE id = ? AND state = 'working'",
			got[""], string(lanes), accepting, wants, w.ID)
	})
	return got, served, texts.Wrap(err, "claim slots on this host")
}

// Others are what a worker needs to know of the live ones.
type Others struct {
	// Wanting counts those of its host that have no slot, and want some.
	Wanting int
	// serving are those with slots, by id.
	serving map[string]Serves
}

// Others reads about the other live workers.
func (r *Table) Others(ctx context.Context, w Worker) (o Others, err error) {
	rows, err := r.rows(ctx, r.db.SQL, "WHERE state = 'working' AND lock_until > (SELECT "+r.db.SQL.NowSQL+") AND id <> ?", w.ID)
	if err != nil {
		return Others{}, fmt.Errorf("look at the other workers: %w", err)
	}
	o.serving = map[string]Serves{}
	for _, row := range rows {
		var serves Serves
		switch {
		case row.Host == w.Host && row.Wants > 0:
			o.Wanting++
		case row.Slots > 0 && row.Accepting && json.Unmarshal([]byte(row.Serves), &serves) == nil:
			o.serving[row.ID] = serves
		}
	}
	return o, nil
}

// Stripe returns how many workers start jobs of any of these types now, and which of them this one is, from 0.
func (o Others) Stripe(id, queue string, types []string) (of, nth int) {
	for other, serves := range o.serving {
		if !slices.ContainsFunc(serves[queue], func(name string) bool { return slices.Contains(types, name) }) {
			continue
		}
		if of++; other < id {
			nth++
		}
	}
	return of + 1, nth
}

// takeTurn makes a host's claiming workers take turns, by a row among the shards that belongs to no queue. They write it,
// because Galera nodes don't see each other's locks but refuse the second commit.
func (r *Table) takeTurn(ctx context.Context, tx *engine.Tx, host string) error {
	at := policy.Hash(host, policy.MaxShards) // few hosts share one
	turn := tx.Now.UnixMicro()                // differs from the last one
	err := tx.Upsert(ctx, r.db.Shards(), 2, []string{"queue", "shard", "turn"}, []any{activity.None, at, turn})
	return texts.Wrap(err, "wait for a turn")
}
