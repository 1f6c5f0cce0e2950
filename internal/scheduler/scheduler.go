// Package scheduler enqueues recurring jobs, by their table, which says which slots of each schedule have been handled, on any host. The package
// queue/schedule computes the slots.
package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/schema"
)

// Scheduler is some schedules of an instance: those of a worker's config, and of its queues. It is safe for concurrent use.
type Scheduler struct {
	db        *schema.DB
	schedules []schedule.Schedule
}

// New is the timetable of these schedules, which are checked, in db's instance.
func New(db *schema.DB, schedules []schedule.Schedule) *Scheduler { return &Scheduler{db, schedules} }

// SpecOf is when a schedule's slots are, in one text, as the config has it.
func SpecOf(s schedule.Schedule) string {
	if !s.Spec.Zoned() {
		return s.Spec.String()
	}
	return s.Spec.String() + " " + cmp.Or(s.Location, time.UTC).String()
}

// hasSlotsOf says whether a text of SpecOf is that of the slots of a schedule, however it is written.
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

// Wait asks how long nothing will be due unless somebody changes the table. 0 is that Run has something to do now.
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

// Row is a schedule as the table has it.
type Row struct {
	Name string
	// Now is the database's clock when the row was read.
	Now engine.Time
	// Spec is when its slots are, with the zone.
	Spec    string
	Queue   string
	JobType string `db:"job_type"`
	// SeenUntil is up to when all slots are done; NextSlot the first after that, or an earlier time where that is still to be found.
	SeenUntil engine.Time `db:"seen_until"`
	NextSlot  engine.Time `db:"next_slot"`
	Paused    bool
	// LastSlot is the last one that has led to a job, which is LastJobID in LastQueue, since LastTime; zero before the first.
	LastSlot  engine.Time `db:"last_slot"`
	LastJobID int64       `db:"last_job_id"`
	LastTime  engine.Time `db:"last_time"`
	LastQueue string      `db:"last_queue"`
	// LeftSlot is the last one that got no job although it was missed or due, and LeftWhy why.
	LeftSlot engine.Time `db:"left_slot"`
	LeftWhy  string      `db:"left_why"`
	// AnewTime is when it last got another Spec than FormerSpec, and AnewCount how often in turn, each within anewWithin.
	AnewTime   engine.Time `db:"anew_time"`
	FormerSpec string      `db:"former_spec"`
	AnewCount  int         `db:"anew_count"`
}

const (
	// ahead is how far the table may be ahead of the database's clock. Beyond that the clock was put back, and the schedule begins
	// again, because else nothing would be due for long. Nearer than that, no slot may come twice.
	ahead = time.Hour
	// anewWithin is how soon a schedule starts over again if two configs have it, and not somebody changes it.
	anewWithin = time.Hour
	// anewOften is how often it starts over in turn before it counts as one of two configs.
	anewOften = 5
	// OverdueFor is how long a slot may wait before somebody is told: ticks run once a minute, and may be held up.
	OverdueFor = schedule.OnTime
)

// isOf says whether the row is that of a schedule as the config has it, and not far ahead of the clock.
func (r Row) isOf(s schedule.Schedule) bool {
	return hasSlotsOf(r.Spec, s) && r.Queue == s.Queue && r.JobType == s.Job.Type && !r.isFarAhead()
}

func (r Row) isFarAhead() bool { return r.SeenUntil.After(r.Now.Add(ahead)) }

func (r Row) isDue() bool { return !r.Paused && !r.NextSlot.After(r.Now.Time) }

// InTurn says that the schedule starts over again and again, because two configs have it, with FormerSpec and Spec.
func (r Row) InTurn() bool {
	return r.AnewCount >= anewOften && r.AnewTime.After(r.Now.Add(-anewWithin))
}

// Ahead is until when no slot is due because the database's clock was put back, but not far; else zero.
func (r Row) Ahead() time.Time {
	if !r.SeenUntil.After(r.Now.Time) || r.isFarAhead() {
		return time.Time{}
	}
	return r.SeenUntil.Time
}

// hasKey is in the LeftWhy of a slot that was left out as its schedule's key wants it.
const hasKey = " has its key, "

// Missed says that LeftSlot passed without a worker.
func (r Row) Missed() bool { return !r.LeftSlot.IsZero() && !strings.Contains(r.LeftWhy, hasKey) }

// Overdue says for how long a slot has been waiting for a worker; 0 if none does.
func (r Row) Overdue() time.Duration {
	if r.Paused || r.NextSlot.IsZero() {
		return 0
	}
	return max(0, r.Now.Sub(r.NextSlot.Time))
}

// Next is the first slot of a schedule that a worker will see to, by its row: the zero Row if no worker knows the schedule yet.
func (r Row) Next(s schedule.Schedule, now time.Time) time.Time {
	if !hasSlotsOf(r.Spec, s) || r.isFarAhead() {
		return s.Next(now)
	}
	return s.Next(r.SeenUntil.Time)
}

// Rows are all schedules of the instance, by name. Other configs may have some of them.
func (t *Scheduler) Rows(ctx context.Context) (map[string]Row, error) {
	var list []Row
	query := "SELECT name, " + t.db.SQL.TimeText(t.db.SQL.NowSQL) + " AS now, spec, queue, job_type, " +
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

// Own are the rows of the timetable's schedules, as far as a worker knows these.
func (t *Scheduler) Own(ctx context.Context) (own []Row, err error) {
	rows, err := t.Rows(ctx)
	for _, s := range t.schedules {
		if r, known := rows[s.Name]; known {
			own = append(own, r)
		}
	}
	return own, err
}

// Pause holds a schedule back: its slots pass by, until Resume. changed says that it was not paused before. It may be repeated.
func (t *Scheduler) Pause(ctx context.Context, name string) (changed bool, err error) {
	return t.set(ctx, "pause", name, "paused = 1, next_slot = NULL WHERE name = ? AND paused = 0")
}

// Resume has a schedule go on from now. changed says that it was paused. It may be repeated.
func (t *Scheduler) Resume(ctx context.Context, name string) (changed bool, err error) {
	return t.set(ctx, "resume", name, "paused = 0, seen_until = "+t.db.SQL.NowSQL+", next_slot = "+t.db.SQL.NowSQL+" WHERE name = ? AND paused <> 0")
}

func (t *Scheduler) set(ctx context.Context, verb, name, set string) (changed bool, err error) {
	err = t.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		did, err := engine.Changed(tx.ExecContext(ctx, "UPDATE "+t.db.Schedules()+" SET "+set, name))
		changed = did || changed && tx.MayBeDone
		return err
	})
	if err != nil {
		return false, fmt.Errorf("%s schedule %s: %w", verb, name, err)
	}
	return changed, nil
}

// Purge deletes the schedules that are not of the timetable, and whose next slot was due before a time, or with dryRun only
// counts them. A paused schedule stays. It may be repeated.
func (t *Scheduler) Purge(ctx context.Context, before time.Time, dryRun bool) (n int64, err error) {
	where := " FROM " + t.db.Schedules() + " WHERE paused = 0 AND COALESCE(next_slot, seen_until) < ?"
	args := []any{engine.At(before)}
	for _, s := range t.schedules {
		args = append(args, s.Name)
	}
	if own := len(t.schedules); own > 0 {
		where += " AND name NOT IN " + engine.In(own)
	}
	if dryRun {
		err = t.db.SQL.GetContext(ctx, &n, "SELECT COUNT(*)"+where, args...)
	} else if res, failed := t.db.SQL.ExecContext(ctx, "DELETE"+where, args...); failed != nil {
		err = failed
	} else {
		n, err = res.RowsAffected()
	}
	if err != nil {
		return 0, fmt.Errorf("purge schedules: %w", err)
	}
	return n, nil
}
