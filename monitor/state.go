package monitor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
)

// State is how an instance is now, and how its last hours went.
type State struct {
	// At is when, by the database's clock.
	At time.Time
	// Over is the length of the last hours; those of them that were taken are in the counts.
	Over time.Duration
	// Until is when the newest of them ends; zero if none was taken.
	Until time.Time
	// Most is up to how many jobs of a type were counted: a Backlog or a number of failed jobs that is more stands for any that is
	// more. 0: all were.
	Most int64
	// Queues are all that can be measured.
	Queues []string
	Types  []TypeState
	// Divisions are how those queues are divided that have several shards, or misplaced jobs.
	Divisions []Division
	// LastTick is the last sign of life of any worker; zero if there never was one.
	LastTick time.Time
	// DeadWorkers are how many died in that time, or have, and nobody has found them yet.
	DeadWorkers int64
	// MissedHours are how many hours of the last week nobody has taken. The last complete hour is not among them: it may be
	// taken yet.
	MissedHours int
	// HighIDs are tables whose next id is in the upper half of all that there are.
	HighIDs []string
	// LeftOut are queues that can't be used, for the caller to fill in.
	LeftOut []LeftOut
	// Overdue are schedules with a slot that no worker sees to, for the caller to fill in, who knows the config's.
	Overdue []Overdue
}

// Overdue is a schedule with a slot that has been waiting for a worker for so long, when it should be less than Within.
type Overdue struct {
	Schedule    string
	For, Within time.Duration
}

// LeftOut is a queue that can't be used, and why.
type LeftOut struct{ Queue, Why string }

// TypeState is how the jobs of one type are.
type TypeState struct {
	Queue, JobType string
	// Paused: nothing of the queue is started.
	Paused bool
	// Backlog is how many are due, or locked by a dead worker; OldestDue for how long the first of them has been due.
	Backlog   int64
	OldestDue time.Duration
	// Failed is how many failed for good, and are still to be seen to.
	Failed int64
	// Counts are of the last hours.
	Counts Counts
}

// State reads how the instance is, and how the last hours went that were taken: over whole hours, at least one. It takes no
// hour. The jobs of a type that are due, or have failed, it counts up to most (State.Most); 0 is all, which takes a second for
// each million of them or so, for they are read in the index.
func (m *Monitor) State(ctx context.Context, over time.Duration, most int64) (State, error) {
	now, err := m.db.Clock(ctx)
	if err != nil {
		return State{}, err
	}
	s := State{At: now, Over: over, Most: most}
	if err = m.types(ctx, &s); err != nil {
		return s, err
	}
	tables := []string{m.db.Activity()}
	for _, name := range s.Queues {
		table, err := m.db.CheckQueue(name)
		if err != nil {
			return s, err
		}
		tables = append(tables, table)
	}
	if s.HighIDs, err = m.db.HighIDs(ctx, tables...); err != nil {
		return s, err
	}
	workers := workers.New(m.db)
	heard, err := workers.LastHeard(ctx)
	if err != nil {
		return s, err
	}
	if heard != nil {
		s.LastTick = heard.Heartbeat.Time
	}
	if s.DeadWorkers, err = workers.Died(ctx, now.Add(-over)); err != nil {
		return s, err
	}
	missing, err := m.Missing(ctx, lastComplete(now).Add(-time.Hour))
	s.MissedHours = len(missing)
	return s, err
}

// types finds the job types of which there is something to say, by queue and name.
func (m *Monitor) types(ctx context.Context, s *State) error {
	queues, err := m.usable(ctx)
	if err != nil {
		return err
	}
	paused, err := m.paused(ctx)
	if err != nil {
		return err
	}
	parts, err := m.parts(ctx)
	if err != nil {
		return err
	}
	found := map[key]*TypeState{}
	of := func(k key) *TypeState {
		if found[k] == nil {
			found[k] = &TypeState{Queue: k.queue, JobType: k.jobType, Paused: paused[k.queue]}
		}
		return found[k]
	}
	for _, q := range queues {
		s.Queues = append(s.Queues, q.Name)
		due, err := m.backlog(ctx, q, s.At, s.Most)
		if err != nil {
			return fmt.Errorf("measure the backlog of %s: %w", q.Name, err)
		}
		for _, d := range due {
			t := of(key{q.Name, d.JobType})
			if t.Backlog += d.N; !d.Oldest.IsZero() {
				t.OldestDue = max(t.OldestDue, s.At.Sub(d.Oldest.Time))
			}
		}
		d, ok, err := m.division(ctx, q, parts[q.Name], due, s.At)
		if err != nil {
			return err
		}
		if d.Paused = paused[q.Name]; ok {
			s.Divisions = append(s.Divisions, d)
		}
		failed, err := m.failed(ctx, q, s.Most)
		if err != nil {
			return err
		}
		for _, f := range failed {
			of(key{q.Name, f.JobType}).Failed += f.N
		}
	}
	last, until, err := m.lastHours(ctx, s.At, s.Over)
	if err != nil {
		return err
	}
	s.Until = until
	for k, r := range last.rows {
		if k != workersKey {
			of(k).Counts = r.Counts
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(found), func(a, b key) int {
		return 2*strings.Compare(a.queue, b.queue) + strings.Compare(a.jobType, b.jobType)
	}) {
		s.Types = append(s.Types, *found[k])
	}
	return nil
}

// lastHours merges the last hours that were taken. There are none if the newest of them is older than all that are asked for:
// that would be no news. to is when the newest ends.
func (m *Monitor) lastHours(ctx context.Context, now time.Time, over time.Duration) (hours metrics, to time.Time, err error) {
	hours = metrics{rows: map[key]*metric{}}
	last := lastComplete(now)
	var newest engine.Time
	err = m.db.GetContext(ctx, &newest, "SELECT "+m.db.TimeText("MAX(hour)")+" FROM "+m.db.Hours()+" WHERE hour > ? AND hour <= ?",
		engine.At(last.Add(-over)), engine.At(last))
	if err != nil {
		return hours, to, fmt.Errorf("find the last hour taken: %w", err)
	}
	if newest.IsZero() {
		return hours, to, nil
	}
	to = newest.Add(time.Hour)
	err = m.eachHour(ctx, to.Add(-over), to, func(time.Time) metricOf { return hours.reader() })
	for _, r := range hours.rows {
		r.sum()
	}
	return hours, to, err
}

// paused are the queues that are.
func (m *Monitor) paused(ctx context.Context) (map[string]bool, error) {
	var names []string
	if err := m.db.SelectContext(ctx, &names, "SELECT queue FROM "+m.db.Queues()+" WHERE paused = 1"); err != nil {
		return nil, fmt.Errorf("find the paused queues: %w", err)
	}
	paused := map[string]bool{}
	for _, name := range names {
		paused[name] = true
	}
	return paused, nil
}
