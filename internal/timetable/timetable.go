// Package timetable is the table of recurring jobs: which slots of each schedule have been seen to, on all hosts together. What
// a slot is, and which are due, says the package queue/schedule.
package timetable

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/schema"
)

// Timetable is some schedules of an instance: those of a worker's config, and of its queues. It is safe for concurrent use.
type Timetable struct {
	db        *schema.DB
	schedules []schedule.Schedule
	// queues are those of the schedules; sum is that of their fingerprints.
	queues []any
	sum    int64
}

// New is the timetable of these schedules, which are checked, in db's instance.
func New(db *schema.DB, schedules []schedule.Schedule) *Timetable {
	t := &Timetable{db: db, schedules: schedules}
	seen := map[string]bool{}
	for _, s := range schedules {
		t.sum += fingerprint(s)
		if !seen[s.Queue] {
			seen[s.Queue] = true
			t.queues = append(t.queues, s.Queue)
		}
	}
	return t
}

// SpecOf is when a schedule's slots are, in one text, as the config has it.
func SpecOf(s schedule.Schedule) string {
	if !s.Spec.Zoned() {
		return s.Spec.String()
	}
	return s.Spec.String() + " " + zoneOf(s).String()
}

func zoneOf(s schedule.Schedule) *time.Location { return cmp.Or(s.Location, time.UTC) }

// slotsOf is one text for all schedules that have the same slots, however the config has them.
func slotsOf(spec schedule.Spec, zone string) string {
	if !spec.Zoned() {
		return spec.Same()
	}
	return spec.Same() + " " + zone
}

// hasSlotsOf says whether a text of SpecOf is that of the slots of a schedule.
func hasSlotsOf(text string, s schedule.Schedule) bool {
	if text == SpecOf(s) {
		return true
	}
	zone := ""
	spec, err := schedule.ParseSpec(text) // one without a zone
	if cut := strings.LastIndex(text, " "); err != nil && cut > 0 {
		spec, err = schedule.ParseSpec(text[:cut])
		zone = text[cut+1:]
	}
	return err == nil && slotsOf(spec, zone) == slotsOf(s.Spec, zoneOf(s).String())
}

// fingerprint is that of what the table says of a schedule.
func fingerprint(s schedule.Schedule) int64 {
	h := fnv.New32a()
	for _, part := range []string{s.Name, slotsOf(s.Spec, zoneOf(s).String()), s.Queue, s.Job.Type} {
		_, _ = h.Write(append([]byte(part), 0)) // a hash takes all
	}
	return int64(h.Sum32())
}

// nextOf is the first slot after a time, or when to look for one again.
func nextOf(s schedule.Schedule, after time.Time) time.Time {
	if next := s.Next(after); !next.IsZero() {
		return next
	}
	return after.AddDate(1, 0, 0)
}

// Look is what there is to do.
type Look struct {
	// Due: the table is to be seen to now. Else Wait is how long nothing will be due, unless somebody changes the table.
	Due  bool
	Wait time.Duration
}

// ahead is how far the table may be ahead of the database's clock before that must have been put back: then it begins anew,
// for else nothing would be due until the clock is there again. What is nearer is left alone, so that no slot is there twice.
const ahead = time.Hour

// Look asks what there is to do, in one round trip, whatever the number of schedules; in two, as long as the table has schedules of
// these queues that are of other configs.
func (t *Timetable) Look(ctx context.Context) (Look, error) {
	if len(t.schedules) == 0 {
		return Look{Wait: time.Hour}, nil
	}
	all, err := t.sumUp(ctx, "queue IN "+engine.In(len(t.queues)), t.queues)
	if err == nil && !t.knows(all) {
		prints := make([]any, len(t.schedules))
		for i, s := range t.schedules {
			prints[i] = fingerprint(s)
		}
		all, err = t.sumUp(ctx, "queue IN "+engine.In(len(t.queues))+" AND fingerprint IN "+engine.In(len(prints)), slices.Concat(t.queues, prints))
	}
	if err != nil {
		return Look{}, fmt.Errorf("look for due schedules: %w", err)
	}
	now := all.Now.Time
	switch {
	case !t.knows(all), all.Until.After(now.Add(ahead)), !all.First.IsZero() && !all.First.After(now):
		return Look{Due: true}, nil
	case all.First.IsZero():
		return Look{Wait: time.Hour}, nil
	}
	return Look{Wait: all.First.Sub(now)}, nil
}

// sum is some rows of the table in short.
type sum struct {
	// N is how many there are, Prints the sum of their fingerprints.
	N, Prints int64
	// First is the first of their next slots, Until the latest time up to which one's slots are seen to.
	First, Until engine.Time
	// Now is the database's clock.
	Now engine.Time
}

// knows says whether rows are those of the schedules, as the config has them.
func (t *Timetable) knows(s sum) bool { return s.N == int64(len(t.schedules)) && s.Prints == t.sum }

func (t *Timetable) sumUp(ctx context.Context, where string, args []any) (s sum, err error) {
	query := "SELECT COUNT(*) AS n, COALESCE(SUM(fingerprint), 0) AS prints, " + t.db.TimeText("MIN(next_slot)") + " AS first, " +
		t.db.TimeText("MAX(seen_until)") + " AS until, " + t.db.TimeText(t.db.Now) + " AS now FROM " + t.db.Schedules() + " " +
		t.db.Index(t.db.Schedules(), "look") + " WHERE " + where
	return s, t.db.GetContext(ctx, &s, query, args...)
}

// Row is a schedule as the table has it.
type Row struct {
	Name        string
	Fingerprint int64
	// Spec is when its slots are, with the zone.
	Spec    string
	Queue   string
	JobType string `db:"job_type"`
	// SeenUntil is up to when all slots are seen to; NextSlot the first after that, or an earlier time where that is still to be found.
	SeenUntil engine.Time `db:"seen_until"`
	NextSlot  engine.Time `db:"next_slot"`
	Paused    bool
	// LastSlot is the last one that has led to a job, LastJobID which, and LastTime when it was enqueued; zero before the first.
	LastSlot  engine.Time `db:"last_slot"`
	LastJobID int64       `db:"last_job_id"`
	LastTime  engine.Time `db:"last_time"`
	// LastQueue is that of LastJobID.
	LastQueue string `db:"last_queue"`
	// LeftSlot is the last one that got no job although it was missed or due, and LeftWhy why.
	LeftSlot engine.Time `db:"left_slot"`
	LeftWhy  string      `db:"left_why"`
	// AnewTime is when it last began anew with another Spec, FormerSpec which it had before, and AnewCount how often it has in turn,
	// each time within anewWithin of the time before.
	AnewTime   engine.Time `db:"anew_time"`
	FormerSpec string      `db:"former_spec"`
	AnewCount  int         `db:"anew_count"`
}

const (
	// anewWithin is how soon a schedule begins anew after it has, if two configs have it in turn, and not somebody changes it.
	anewWithin = time.Hour
	// anewOften is how often somebody may change a schedule in turn before it is taken for one that two configs have.
	anewOften = 5
)

// InTurn says that the schedule begins anew again and again, for two configs have it with different slots: FormerSpec and Spec.
func (r Row) InTurn(now time.Time) bool {
	return r.AnewCount >= anewOften && r.AnewTime.After(now.Add(-anewWithin))
}

// InTurn are those rows of the timetable's schedules that begin anew again and again.
func (t *Timetable) InTurn(ctx context.Context) (in []Row, err error) {
	rows, err := t.byName(ctx)
	if err != nil {
		return nil, err
	}
	now, err := t.db.Clock(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range t.schedules {
		if r := rows[s.Name]; r.InTurn(now) {
			in = append(in, r)
		}
	}
	return in, nil
}

// Ahead is until when no slot is due, for the database's clock was put back and all slots up to that time are seen to; zero is at once.
func (r Row) Ahead(now time.Time) time.Time {
	if !r.SeenUntil.After(now) || r.SeenUntil.After(now.Add(ahead)) {
		return time.Time{}
	}
	return r.SeenUntil.Time
}

// OverdueFor is for how long a slot may wait before somebody is told: ticks run once a minute, and may be held up.
const OverdueFor = schedule.OnTime

// Overdue says for how long a slot has been waiting for a worker to see to it; 0 if none does.
func (r Row) Overdue(now time.Time) time.Duration {
	if r.Paused || r.NextSlot.IsZero() {
		return 0
	}
	return max(0, now.Sub(r.NextSlot.Time))
}

// Late is a schedule that has a slot that has been waiting for a worker for longer than OverdueFor.
type Late struct {
	Schedule string
	By       time.Duration
}

// Late are those of the timetable that are, and how many are paused.
func (t *Timetable) Late(ctx context.Context) (late []Late, paused int, err error) {
	rows, err := t.byName(ctx)
	if err != nil {
		return nil, 0, err
	}
	now, err := t.db.Clock(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, s := range t.schedules {
		r := rows[s.Name]
		if r.Paused {
			paused++
		}
		if by := r.Overdue(now); by > OverdueFor {
			late = append(late, Late{s.Name, by})
		}
	}
	return late, paused, nil
}

// Rows are all schedules of the instance, whoever's config they are in, by name.
func (t *Timetable) Rows(ctx context.Context) (rows []Row, err error) {
	query := "SELECT name, fingerprint, spec, queue, job_type, " + t.db.TimeColumns("seen_until", "next_slot", "last_slot", "last_time", "left_slot", "anew_time") +
		", paused <> 0 AS paused, last_job_id, last_queue, left_why, former_spec, anew_count FROM " + t.db.Schedules() + " ORDER BY name"
	if err := t.db.SelectContext(ctx, &rows, query); err != nil {
		return nil, fmt.Errorf("list the schedules: %w", err)
	}
	return rows, nil
}
