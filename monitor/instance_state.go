package monitor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
)

// State is how an instance is now, and how its last hours went.
type State struct {
	// At is when the state was read, by the database's clock.
	At time.Time
	// Zone is for the times in findings; nil is UTC. The caller sets it.
	Zone *time.Location
	// Over is the length of the judged period. Counts cover only its aggregated hours.
	Over time.Duration
	// Until is the end of the newest aggregated hour in the period; zero without one.
	Until time.Time
	// Most is up to how many jobs of a type were counted; 0 is all. A Backlog or Failed above it is a lower bound.
	Most int64
	// MoreRetrying is set if not all jobs that wait for a retry were counted.
	MoreRetrying bool
	// Queues has all queues that can be measured.
	Queues []string
	Types  []TypeState
	// Divisions has the queues with several shards or with misplaced jobs.
	Divisions []Division
	// LastTick is the last sign of life of a worker that wasn't started by hand; zero if there never was one.
	LastTick time.Time
	// DeadWorkers is how many workers died in the period, including dead workers that no other worker has found yet.
	DeadWorkers int64
	// MissedHours is how many hours of the last week, without the last complete one, were not aggregated.
	MissedHours int
	// GoneHours is how many of the missed hours can't be aggregated because their activity was purged.
	GoneHours int
	// HighIDs has the tables whose next id is in the upper half of the possible ids.
	HighIDs []string
	// Disk is the disk of SQLite's file; nil if there is none or it is unknown. The caller sets it.
	Disk *Disk
	// LeftOut has the queues that can't be used. The caller sets it.
	LeftOut []LeftOut
	// Overdue has the schedules with a slot that no worker handles. The caller sets it, from the config.
	Overdue []Overdue
}

// Retrying is how many jobs of a type wait for a retry.
type Retrying struct {
	Queue   string `json:"queue"`
	JobType string `json:"job_type"`
	// Jobs is the number of jobs that wait for a retry.
	Jobs int64 `json:"jobs"`
}

// Retrying lists the types with jobs that wait for a retry.
func (s State) Retrying() []Retrying {
	all := []Retrying{}
	for _, t := range s.Types {
		if t.Retrying > 0 {
			all = append(all, Retrying{t.Queue, t.JobType, t.Retrying})
		}
	}
	return all
}

// Overdue is a schedule with a slot that no worker handled in time.
type Overdue struct {
	Schedule string
	// For is how long the slot has been due. Within is how long it may be due.
	For, Within time.Duration
}

// LeftOut is a queue that can't be used, and why.
type LeftOut struct{ Queue, Why string }

// TypeState is the state of the jobs of one type.
type TypeState struct {
	Queue, JobType string
	// Paused is set if the queue is paused: it starts no jobs.
	Paused bool
	// Backlog is how many jobs are due or locked by a dead worker.
	Backlog int64
	// OldestDue is how long the first job of the backlog has been due.
	OldestDue time.Duration
	// Failed is how many jobs failed for good and were neither retried nor dismissed.
	Failed int64
	// Retrying is how many jobs wait for a retry.
	Retrying int64
	// Counts covers the aggregated hours of the period.
	Counts Counts
	// Last has the attempts of the last hour, up to now.
	Last LastAttempts
}

// State reads how the instance is, and its aggregated metrics of the last hours; over is at least 1 h, in whole hours.
// It counts due and failed jobs of a type up to most. With 0 it counts all, which takes about 1 s for a million jobs.
func (m *Monitor) State(ctx context.Context, over time.Duration, most int64) (State, error) {
	now, err := m.db.SQL.Clock(ctx)
	if err != nil {
		return State{}, err
	}
	s := State{At: now, Over: over, Most: most}
	if err = m.types(ctx, &s); err != nil {
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
	if s.MissedHours = len(missing); err == nil && len(missing) > 0 {
		var gone []time.Time
		_, gone, err = m.apart(ctx, missing)
		s.GoneHours = len(gone)
	}
	return s, err
}

// types reads the queues, and the state of the job types that have jobs or counts, by queue and name.
func (m *Monitor) types(ctx context.Context, s *State) error {
	queues, err := m.usable(ctx)
	if err != nil {
		return err
	}
	tables := texts.Map(queues, func(q jobs) string { return q.table })
	if s.HighIDs, err = m.db.HighIDs(ctx, append(tables, m.db.Activity())...); err != nil {
		return err
	}
	found, paused := map[key]*TypeState{}, map[string]bool{}
	of := func(k key) *TypeState {
		if found[k] == nil {
			found[k] = &TypeState{Queue: k.queue, JobType: k.jobType, Paused: paused[k.queue]}
		}
		return found[k]
	}
	for _, q := range queues {
		s.Queues, paused[q.queue] = append(s.Queues, q.queue), q.shards[0].Paused
		due, err := m.backlog(ctx, q, s.At, s.Most)
		if err != nil {
			return fmt.Errorf("measure the backlog of %s: %w", q.queue, err)
		}
		for _, d := range due {
			t := of(key{q.queue, d.JobType})
			if t.Backlog += d.N; !d.Oldest.IsZero() {
				t.OldestDue = max(t.OldestDue, s.At.Sub(d.Oldest.Time))
			}
		}
		d, err := m.division(ctx, q, due, s.At)
		if err != nil {
			return err
		}
		if d != nil {
			s.Divisions = append(s.Divisions, *d)
		}
		failed, err := m.failed(ctx, q, s.Most)
		if err != nil {
			return err
		}
		for _, f := range failed {
			of(key{q.queue, f.JobType}).Failed += f.N
		}
		retrying, more, err := m.retrying(ctx, q, s.Most)
		if err != nil {
			return err
		}
		s.MoreRetrying = s.MoreRetrying || more
		for _, r := range retrying {
			of(key{q.queue, r.JobType}).Retrying += r.N
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
	if err := m.lastAttempts(ctx, s, of); err != nil {
		return err
	}
	s.Types = texts.Map(slices.SortedFunc(maps.Keys(found), key.compare), func(k key) TypeState { return *found[k] })
	return nil
}

// lastHours merges the last aggregated hours, which end at to. If the newest one is older than over, there are none.
func (m *Monitor) lastHours(ctx context.Context, now time.Time, over time.Duration) (hours metrics, to time.Time, err error) {
	hours, last := newMetrics(now), lastComplete(now)
	newest, err := m.time(ctx, "MAX(hour)", m.db.Hours()+" WHERE hour > ? AND hour <= ?", engine.At(last.Add(-over)), engine.At(last))
	if err != nil || newest.IsZero() {
		return hours, to, err
	}
	begin, err := m.Begin(ctx)
	if err != nil || begin.IsZero() || newest.Before(begin) { // the hour is before the instance's first activity
		return hours, to, err
	}
	to = newest.Add(time.Hour)
	err = m.eachMetric(ctx, m.db.SQL, to.Add(-over), to, func(r *metric) { hours.row(r.key()).add(r) })
	for _, r := range hours.rows {
		r.sum()
	}
	return hours, to, err
}
