// Package schedule computes the slots of recurring jobs, which missed slots to make up for, and the job of a slot. It uses no
// database and no clock. Workers enqueue the jobs: see worker.Params.Schedules.
package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// ErrInvalid is wrapped by all errors about invalid schedules.
var ErrInvalid = errors.New("not a valid schedule")

// Schedule enqueues a job at each of its slots.
type Schedule struct {
	// Name is unique in the instance: lower-case letters, digits, - and _, beginning with a letter, at most MaxName bytes.
	Name string
	// Spec says when the slots are.
	Spec Spec
	// Location is the time zone of Spec; nil means UTC.
	Location *time.Location
	// Jitter delays each job by up to this much, in whole seconds, to spread the jobs of several schedules. The delay depends
	// only on the schedule and the slot. 0 means none.
	Jitter time.Duration
	// Missed says what to do about missed slots; empty means Latest.
	Missed Missed
	// Queue is the queue to enqueue into.
	Queue string
	// Job is the job; the slot replaces its At and In. If it has a Key, a slot gets no job while an earlier slot's job isn't
	// final. Otherwise each job gets the key of KeyOf.
	Job job.Params
}

// MaxName is the longest name, in bytes.
const MaxName = 64

// Missed is what to do about slots that were missed because no worker ran or the database was away.
type Missed string

// Policies for missed slots.
const (
	// Latest enqueues only the latest slot's job, however late.
	Latest Missed = "latest"
	// Skip enqueues the latest slot's job if the slot was at most OnTime ago.
	Skip Missed = "skip"
	// All enqueues a job for each of the latest MostMissed slots. A schedule with a Key gets only the latest one.
	All Missed = "all"
)

var allMissed = []Missed{Latest, Skip, All}

const (
	// OnTime is how late a slot may be without being missed: cron starts workers once a minute, perhaps with a delay.
	OnTime = 5 * time.Minute
	// MostMissed is how many slots All makes up for at once.
	MostMissed = 100
)

const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	inNames = letters + "0123456789-_"
)

// CheckName returns ErrInvalid for an invalid name.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || strings.Trim(name, inNames) != "" || !strings.Contains(letters, name[:1]) {
		return fmt.Errorf("%w: name %.80q (lower case letters, digits, - and _, a letter first, at most %d)", ErrInvalid, name, MaxName)
	}
	return nil
}

// Check returns ErrInvalid for an invalid schedule, or the error of job.Params.Check for its Job.
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
		return fmt.Errorf("%w: missed %q of %s is not one of skip, latest, all", ErrInvalid, s.Missed, s.Name)
	}
	return texts.Wrap(s.Job.Check(), "schedule %s", s.Name)
}

// KeyOf returns the key of a slot's job if the schedule has none: NAME@SLOT in UTC, for example nightly@2026-11-22T02:30:00Z.
func (s Schedule) KeyOf(slot time.Time) string {
	return s.Name + "@" + slot.UTC().Format(time.RFC3339Nano)
}

// JobOf returns a slot's job. It is due at the slot plus the jitter.
func (s Schedule) JobOf(slot time.Time) job.Params {
	j := s.Job
	j.In, j.At, j.Key = 0, slot.Add(s.jitterOf(slot)), cmp.Or(j.Key, s.KeyOf(slot))
	return j
}

// JobNow returns an extra job to run now. Without the schedule's own Key, its key is that of a slot at now.
func (s Schedule) JobNow(now time.Time) job.Params {
	j := s.JobOf(now)
	j.At = time.Time{}
	return j
}

// jitterOf returns the delay of a slot's job.
func (s Schedule) jitterOf(slot time.Time) time.Duration {
	if s.Jitter < time.Second {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", s.Name, slot.Unix())
	return time.Duration(h.Sum64()%uint64(s.Jitter/time.Second+1)) * time.Second
}

// Next returns the first slot after a time, or the zero Time if there is none in the next years.
func (s Schedule) Next(after time.Time) time.Time { return s.Spec.Next(after, s.Location) }

// LeftOut is the latest missed slot that gets no job, and why; zero means none.
type LeftOut struct {
	Slot time.Time
	Why  string
}

// Due returns the slots after since, up to now, whose jobs to enqueue now, in order. latest is the latest slot, or zero;
// slots up to it are then handled. A schedule with a Key gets at most one slot, the latest.
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
	default:
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

// latest returns the latest slots after since, up to now, at most so many. It searches ever further back from now, because
// there may be any number of slots.
func (s Schedule) latest(since, now time.Time, most int) (slots []time.Time) {
	for back := time.Hour; ; back *= 4 {
		from := now.Add(-back)
		whole := back > now.Sub(since)/4 // then search the rest at once
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
