// Package schedule is when recurring jobs are due: the slots of a schedule, what becomes of those that nobody saw to in time,
// and the job of a slot. It knows no database and no clock; who enqueues the jobs is a worker: see worker.Params.Schedules.
package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// ErrInvalid is wrapped by every refusal of a schedule.
var ErrInvalid = errors.New("not a valid schedule")

// Schedule enqueues a job at each of its slots.
type Schedule struct {
	// Name is the schedule's, unique among those of the instance: lower case letters, digits, - and _, a letter first, at most
	// MaxName of them.
	Name string
	// Spec says when its slots are.
	Spec Spec
	// Location is the zone of the Spec; nil is UTC.
	Location *time.Location
	// Jitter spreads the jobs of several schedules: each job's time is its slot and up to so much more, always the same for the
	// same schedule and slot, whoever enqueues it. Whole seconds, 0 for none.
	Jitter time.Duration
	// Missed says what becomes of slots that nobody has seen to in time; empty is Latest.
	Missed Missed
	// Queue is where the jobs go, Job what they are. Its At and In are of no account: the slot decides. With a Key of its own
	// a slot is left out while the job of an earlier one is not final; without, each job has that of KeyOf.
	Queue string
	Job   job.Params
}

// MaxName is how many bytes a schedule's name may have.
const MaxName = 64

// Missed is what becomes of slots that were not seen to in time, for no worker ran, or the database was away.
type Missed string

// What becomes of them.
const (
	// Latest enqueues the job of the latest slot, however late it is; those before it are left out.
	Latest Missed = "latest"
	// Skip enqueues the job of the latest slot if it was at most OnTime ago.
	Skip Missed = "skip"
	// All enqueues a job for each slot, up to MostMissed of them, the latest; of a schedule with a Key of its own, of the latest alone.
	All Missed = "all"
)

var allMissed = []Missed{Latest, Skip, All}

const (
	// OnTime is how late a slot may be seen to without being missed: a crontab line runs once a minute, and may be held up.
	OnTime = 5 * time.Minute
	// MostMissed is how many slots All makes up for at once.
	MostMissed = 100
)

const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	inNames = letters + "0123456789-_"
)

// CheckName refuses what can't be a schedule's name: ErrInvalid.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || strings.Trim(name, inNames) != "" || !strings.Contains(letters, name[:1]) {
		return fmt.Errorf("%w: name %.80q (lower case letters, digits, - and _, a letter first, at most %d)", ErrInvalid, name, MaxName)
	}
	return nil
}

// Check refuses what can't be a schedule: ErrInvalid, or what job.Params.Check says of its Job.
func (s Schedule) Check() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	switch {
	case s.Spec.text == "":
		return fmt.Errorf("%w: %s doesn't say when its slots are", ErrInvalid, s.Name)
	case s.Jitter < 0 || s.Jitter%time.Second != 0:
		return fmt.Errorf("%w: jitter %s of %s is not a number of whole seconds", ErrInvalid, s.Jitter, s.Name)
	case s.Missed != "" && !slices.Contains(allMissed, s.Missed):
		return fmt.Errorf("%w: missed %q of %s is none of skip, latest, all", ErrInvalid, s.Missed, s.Name)
	}
	if err := s.Job.Check(); err != nil {
		return fmt.Errorf("schedule %s: %w", s.Name, err)
	}
	return nil
}

// KeyOf is the key of a slot's job where the schedule has none of its own: NAME@SLOT, in UTC, as nightly@2026-11-22T02:30:00Z.
func (s Schedule) KeyOf(slot time.Time) string {
	return s.Name + "@" + slot.UTC().Format(time.RFC3339Nano)
}

// JobOf is the job of a slot. Its scheduled_run_time is that of the slot, and the jitter.
func (s Schedule) JobOf(slot time.Time) job.Params {
	j := s.Job
	j.In, j.At = 0, slot.Add(s.jitterOf(slot))
	if j.Key == "" {
		j.Key = s.KeyOf(slot)
	}
	return j
}

// JobNow is the job beside the slots that somebody wants now. Without a Key of the schedule's own, it has that of a slot at that time.
func (s Schedule) JobNow(now time.Time) job.Params {
	j := s.JobOf(now)
	j.At = time.Time{}
	return j
}

// jitterOf is by how much a slot's job is put off.
func (s Schedule) jitterOf(slot time.Time) time.Duration {
	if s.Jitter < time.Second {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", s.Name, slot.Unix())
	return time.Duration(h.Sum64()%uint64(s.Jitter/time.Second+1)) * time.Second
}

// Next is the first slot after a time; the zero Time if there is none in the next years.
func (s Schedule) Next(after time.Time) time.Time { return s.Spec.Next(after, s.Location) }

// LeftOut is the latest slot that gets no job although it was missed, and why; the zero LeftOut is none. Slots that Latest and Skip
// pass over were missed if the first of them is older than OnTime.
type LeftOut struct {
	Slot time.Time
	Why  string
}

// Due are the slots after since, up to now, whose jobs are to be enqueued now, in order, and the latest slot that there was: all up
// to it are seen to then. The latter is zero if there was none. A schedule with a Key of its own has one job at a time, and so one
// slot at most: the latest.
func (s Schedule) Due(since, now time.Time) (slots []time.Time, latest time.Time, left LeftOut) {
	most := 1
	if s.Missed == All && s.Job.Key == "" {
		most = MostMissed
	}
	slots = s.latest(since, now, MostMissed+1)
	if len(slots) == 0 {
		return nil, time.Time{}, LeftOut{}
	}
	latest = slots[len(slots)-1]
	over := slots[:max(0, len(slots)-most)]
	slots = slots[len(over):]
	switch n := len(over); {
	case s.Missed == Skip && now.Sub(latest) > OnTime:
		return nil, latest, LeftOut{latest, s.wereMissed(append(over, latest))}
	case n == 0:
	case s.Missed == All && s.Job.Key == "":
		left = LeftOut{over[n-1], fmt.Sprintf("more than %d slots were missed, because no worker ran; the last %d got jobs", most, most)}
	case s.Missed == All:
		left = LeftOut{over[n-1], s.wereMissed(over) + "; the slot of " + s.at(latest, over[n-1]) + " got the one job that the key allows"}
	case now.Sub(over[0]) > OnTime:
		left = LeftOut{over[n-1], s.wereMissed(over) + "; the slot of " + s.at(latest, over[n-1]) + " got the job"}
	}
	return slots, latest, left
}

// wereMissed says which slots were missed. Of very many, Due has the last alone.
func (s Schedule) wereMissed(slots []time.Time) string {
	first, last := slots[0], slots[len(slots)-1]
	zone := last.In(cmp.Or(s.Location, time.UTC)).Format(" MST")
	switch n := len(slots); {
	case n == 1:
		return "1 slot was missed (" + s.at(last, time.Time{}) + zone + "), because no worker ran"
	case n >= MostMissed:
		return fmt.Sprintf("at least %d slots were missed (up to %s%s), because no worker ran", MostMissed, s.at(last, time.Time{}), zone)
	default:
		return fmt.Sprintf("%d slots were missed (%s to %s%s), because no worker ran", n, s.at(first, time.Time{}), s.at(last, first), zone)
	}
}

// at is a slot for people, without its day if that is the day of the slot before it.
func (s Schedule) at(slot, before time.Time) string {
	const day = "2006-01-02 "
	zone := cmp.Or(s.Location, time.UTC)
	return strings.TrimPrefix(slot.In(zone).Format(day+"15:04"), before.In(zone).Format(day))
}

// latest are the latest slots after since, up to now, at most so many. It looks back from now further and further, for between
// the two there may be any number of them.
func (s Schedule) latest(since, now time.Time, most int) (slots []time.Time) {
	for back := time.Hour; ; back *= 4 {
		from := now.Add(-back)
		whole := back > now.Sub(since)/4 // then all of it at once
		if whole {
			from = since
		}
		slots = slots[:0]
		for at := s.Next(from); !at.IsZero() && !at.After(now); at = s.Next(at) {
			if len(slots) == most {
				slots = append(slots[:0], slots[1:]...)
			}
			slots = append(slots, at)
		}
		if whole || len(slots) == most {
			return slots
		}
	}
}
