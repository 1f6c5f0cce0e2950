// Package scheduler enqueues recurring jobs. Its table says which slots of each schedule have been handled, on any host.
// Package queue/schedule computes the slots. Scheduler.Run enqueues those that are due, each once: see due_slots.go.
package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/schema"
)

// Scheduler is some schedules of an instance: those in a worker's config for its queues. It is safe for concurrent use.
type Scheduler struct {
	db        *schema.DB
	schedules []schedule.Schedule
}

// New returns a Scheduler of these schedules in db's instance. They must have been checked.
func New(db *schema.DB, schedules []schedule.Schedule) *Scheduler { return &Scheduler{db, schedules} }

// SpecOf is a text that says when a schedule's slots are, as the config writes it.
func SpecOf(s schedule.Schedule) string {
	if !s.Spec.Zoned() {
		return s.Spec.String()
	}
	return s.Spec.String() + " " + cmp.Or(s.Location, time.UTC).String()
}

// hasSlotsOf says whether a SpecOf text has the schedule's slots, however it is written.
func hasSlotsOf(text string, s schedule.Schedule) bool {
	zone := strings.TrimPrefix(SpecOf(s), s.Spec.String())
	text, inZone := strings.CutSuffix(text, zone)
	spec, err := schedule.ParseSpec(text)
	return inZone && err == nil && spec.Equal(s.Spec)
}

// nextOf is the first slot after a time, or when to look for one again.
func nextOf(s schedule.Schedule, after time.Time) time.Time {
	if next := s.Next(after); !next.IsZero() {
		return next
	}
	return after.AddDate(1, 0, 0)
}

// Wait returns how long nothing will be due if the table doesn't change. 0 means that Run has work now.
func (t *Scheduler) Wait(ctx context.Context) (wait time.Duration, err error) {
	wait = time.Hour
	if len(t.schedules) == 0 {
		return wait, nil
	}
	rows, err := t.Rows(ctx)
	if err != nil {
		return 0, fmt.Errorf("look for due schedules: %w", err)
	}
	for _, s := range t.schedules {
		switch r := rows[s.Name]; {
		case !r.isOf(s) || r.isDue():
			return 0, nil
		case !r.Paused:
			wait = min(wait, r.NextSlot.Sub(r.Now.Time))
		}
	}
	return wait, nil
}

// Row is a schedule's row.
type Row struct {
	Name string
	// Now is the database's time when the row was read.
	Now engine.Time
	// Spec says when its slots are, with the time zone.
	Spec    string
	Queue   string
	JobType string `db:"job_type"`
	// SeenUntil is the time up to which all slots are handled.
	SeenUntil engine.Time `db:"seen_until"`
	// NextSlot is the first slot after that, or an earlier time to look for it.
	NextSlot engine.Time `db:"next_slot"`
	Paused   bool
	// LastSlot is the last slot that led to a job; zero before the first.
	LastSlot  engine.Time `db:"last_slot"`
	LastJobID int64       `db:"last_job_id"`
	// LastTime is when that job was enqueued, LastQueue is its queue.
	LastTime  engine.Time `db:"last_time"`
	LastQueue string      `db:"last_queue"`
	// LeftSlot is the last slot that was missed or due and got no job; LeftWhy is the reason.
	LeftSlot engine.Time `db:"left_slot"`
	LeftWhy  string      `db:"left_why"`
	// AnewTime is when the schedule last restarted because Spec replaced FormerSpec.
	AnewTime   engine.Time `db:"anew_time"`
	FormerSpec string      `db:"former_spec"`
	// AnewCount counts such restarts in a row, each within anewWithin of the one before.
	AnewCount int `db:"anew_count"`
}

const (
	// ahead is how far the table may be ahead of the database's clock. Beyond that, the clock was set back and the schedule
	// restarts: otherwise nothing would be due for long. Within it, no slot may come twice.
	ahead = time.Hour
	// anewWithin bounds the time between restarts that point to two configs with the schedule, not to a person's change.
	anewWithin = time.Hour
	// anewOften is how many restarts in a row mean that two configs have the schedule.
	anewOften = 5
	// OverdueFor is how long a slot may wait before a warning: ticks come once a minute and may be delayed.
	OverdueFor = schedule.OnTime
)

// isOf says whether the row matches the config's schedule and isn't far ahead of the clock.
func (r Row) isOf(s schedule.Schedule) bool {
	return hasSlotsOf(r.Spec, s) && r.Queue == s.Queue && r.JobType == s.Job.Type && !r.isFarAhead()
}

func (r Row) isFarAhead() bool { return r.SeenUntil.After(r.Now.Add(ahead)) }

func (r Row) isDue() bool { return !r.Paused && !r.NextSlot.After(r.Now.Time) }

// InTurn says that the schedule keeps restarting, because two configs have it, with FormerSpec and Spec.
func (r Row) InTurn() bool {
	return r.AnewCount >= anewOften && r.AnewTime.After(r.Now.Add(-anewWithin))
}

// Ahead is until when no slot is due because the database's clock was set back a little; else zero.
func (r Row) Ahead() time.Time {
	if !r.SeenUntil.After(r.Now.Time) || r.isFarAhead() {
		return time.Time{}
	}
	return r.SeenUntil.Time
}

// hasKey is in the LeftWhy of a slot that was skipped because of its schedule's key.
const hasKey = " has its key, "

// Missed says that LeftSlot passed without a worker.
func (r Row) Missed() bool { return !r.LeftSlot.IsZero() && !strings.Contains(r.LeftWhy, hasKey) }

// Overdue is how long a slot has waited for a worker; 0 if none has.
func (r Row) Overdue() time.Duration {
	if r.Paused || r.NextSlot.IsZero() {
		return 0
	}
	return max(0, r.Now.Sub(r.NextSlot.Time))
}

// Next is the schedule's first unhandled slot, by its row; the Row is zero if no worker has stored the schedule yet.
func (r Row) Next(s schedule.Schedule, now time.Time) time.Time {
	if !hasSlotsOf(r.Spec, s) || r.isFarAhead() {
		return s.Next(now)
	}
	return s.Next(r.SeenUntil.Time)
}

// Rows returns all schedules of the instance by name, including those of other configs.
func (t *Scheduler) Rows(ctx context.Context) (map[string]Row, error) {
	var list []Row
	query := "SELECT name, " + t.db.SQL.TimeText(t.db.SQL.NowSQL) + " AS `now`, spec, queue, job_type, " +
		t.db.SQL.TimeColumns("seen_until", "next_slot", "last_slot", "last_time", "left_slot", "anew_time") +
		", paused <> 0 AS paused, last_job_id, last_queue, left_why, former_spec, anew_count FROM " + t.db.Schedules() + " ORDER BY name"
	if err := t.db.SQL.SelectContext(ctx, &list, query); err != nil {
		return nil, fmt.Errorf("list the schedules: %w", err)
	}
	rows := make(map[string]Row, len(list))
	for _, r := range list {
		rows[r.Name] = r
	}
	return rows, nil
}

// Own returns the stored rows of the Scheduler's schedules.
func (t *Scheduler) Own(ctx context.Context) (own []Row, err error) {
	rows, err := t.Rows(ctx)
	for _, s := range t.schedules {
		if r, known := rows[s.Name]; known {
			own = append(own, r)
		}
	}
	return own, err
}

// Pause stops a schedule until Resume; its slots pass. changed says that it wasn't paused. It may be repeated.
func (t *Scheduler) Pause(ctx context.Context, name string) (changed bool, err error) {
	return t.set(ctx, "pause", name, "paused = 1, next_slot = NULL WHERE name = ? AND paused = 0")
}

// Resume continues a schedule from now. changed says that it was paused. It may be repeated.
func (t *Scheduler) Resume(ctx context.Context, name string) (changed bool, err error) {
	return t.set(ctx, "resume", name, "paused = 0, seen_until = "+t.db.SQL.NowSQL+", next_slot = "+t.db.SQL.NowSQL+" WHERE name = ? AND paused <> 0")
}

func (t *Scheduler) set(ctx context.Context, verb, name, set string) (changed bool, err error) {
	err = t.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		did, err := engine.Changed(tx.ExecContext(ctx, "UPDATE "+t.db.Schedules()+" SET "+set, name))
		changed = did || changed && tx.MayBeDone
		return err
	})
	return changed, texts.Wrap(err, "%s schedule %s", verb, name)
}

// Purge deletes schedules that aren't the Scheduler's and whose next slot was due before a time; with dryRun it only counts
// them. Paused schedules stay. It may be repeated.
func (t *Scheduler) Purge(ctx context.Context, before time.Time, dryRun bool) (n int64, err error) {
	where := " FROM " + t.db.Schedules() + " WHERE paused = 0 AND COALESCE(next_slot, seen_until) < ?"
	args := append([]any{engine.At(before)}, texts.Map(t.schedules, func(s schedule.Schedule) any { return s.Name })...)
	if own := len(t.schedules); own > 0 {
		where += " AND name NOT IN " + engine.In(own)
	}
	if dryRun {
		err = t.db.SQL.GetContext(ctx, &n, "SELECT COUNT(*)"+where, args...)
	} else {
		err = t.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
			deleted, err := tx.Affected(ctx, "DELETE"+where, args...)
			if deleted > 0 || !tx.MayBeDone { // otherwise an earlier try deleted n
				n = deleted
			}
			return err
		})
	}
	return n, texts.Wrap(err, "purge schedules")
}
