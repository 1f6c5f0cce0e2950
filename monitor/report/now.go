package report

import (
	"time"

	"github.com/hipq/hipq/monitor"
)

// List has the first of some things, so that the page stays short however many there are.
type List[T any] struct {
	First []T
	// More is how many of a Thing there are besides, which Command lists.
	More           int64
	Thing, Command string
}

// listed is how many things a list has.
const listed = 20

// ListOf is the list of all of some things.
func ListOf[T any](all []T, thing, command string) List[T] {
	n := min(len(all), listed)
	return List[T]{First: all[:n], More: int64(len(all) - n), Thing: thing, Command: command}
}

// Running is a job that runs.
type Running struct {
	Queue, JobType string
	ID             int64
	Attempt        int
	// Progress is what the job has said of it; empty if nothing.
	Progress string
	Start    time.Time
	// Host is that of its worker; empty if that is not at work any more.
	Host string
}

// Schedule is a recurring job. Its times are zero where there is none.
type Schedule struct {
	Name, When, Queue, JobType string
	// Next and Last are its slots; Missed is the last one that got no job.
	Next, Last, Missed time.Time
	// Overdue says that no worker handles the next one, MissedLately that somebody must be told of the missed one.
	Overdue, MissedLately bool
	Remark                string
}

// Urgency is how soon somebody must look at it: the more, the sooner.
func (s Schedule) Urgency() int {
	switch {
	case s.Overdue:
		return 2
	case s.MissedLately:
		return 1
	}
	return 0
}

// Host has the workers that are at work on a host.
type Host struct {
	Name string
	// Silent of the Workers have missed a renewal of their locks.
	Workers, Silent int
	// Slots is how many jobs they may run at once, Running how many they run.
	Slots, Running int
	// Since is when the first of them started, Heartbeat the latest heartbeat of any.
	Since, Heartbeat time.Time
}

// Start is when a worker started, and where.
type Start struct {
	Host string
	At   time.Time
}

// HasWorkers says whether the page has a part about workers.
func (v view) HasWorkers() bool {
	w := v.Window("1w")
	return len(v.Hosts.First) > 0 || v.LastStart != nil || w != nil && len(w.Ticks.Hosts) > 0
}

// Added is how many jobs were added since the last complete hour.
func (v view) Added() (n int64) {
	if v.Current != nil {
		for _, q := range v.Current.Queues {
			n += q.Added
		}
	}
	return n
}

// Idle says that no job has run for a week, as in a new instance.
func (v view) Idle() bool {
	if v.Current == nil || v.Current.LeftOut || len(v.Running.First)+len(v.Failures.First) > 0 || len(v.Missing) > 0 {
		return false
	}
	started := int64(0)
	for _, q := range v.Current.Queues {
		started += q.Started
	}
	if w := v.Window("1w"); w != nil {
		for _, q := range w.Queues {
			started += q.Started
		}
	}
	return started == 0
}

// tone is how bad a figure is by the limits of the config, as the class of its cell.
type tone int

func (t tone) String() string { return [...]string{"", " warned", " bad"}[t] }

func over(l monitor.Limits, value float64) tone {
	severity, _ := l.Verdict(value)
	return tone(severity.Rank())
}

// overMS is that of a time in milliseconds; nil is none.
func overMS(l monitor.Limits, ms *int64) tone {
	if ms == nil {
		return 0
	}
	return over(l, float64(*ms)/1000)
}

// due is how many jobs were due when the last hour ended, and for how long the oldest of them had been.
type due struct {
	Jobs, OldestMS int64
	Many, Old      tone
}

// Due are those of a queue, or without a name of all; nil if they were not measured.
func (v view) Due(queue string) (d *due) {
	for _, g := range v.Gauges {
		if queue != "" && g.Queue != queue {
			continue
		}
		if d == nil {
			d = &due{}
		}
		limits := v.Alert.Of(g.Queue, g.JobType)
		d.Jobs, d.OldestMS = d.Jobs+g.Backlog, max(d.OldestMS, g.OldestDueMS)
		d.Many, d.Old = max(d.Many, over(limits.Backlog, float64(g.Backlog))), max(d.Old, overMS(limits.OldestDue, &g.OldestDueMS))
	}
	return d
}

// Slot is a time of a schedule, if there is one.
func (v view) Slot(t time.Time) string {
	if t.IsZero() {
		return none
	}
	return v.Minute(t)
}

// Since is how long ago a time was.
func (v view) Since(t time.Time) string { return duration(v.Made.Sub(t).Milliseconds()) }

// RunningJobs is how many jobs run.
func (v view) RunningJobs() int64 { return int64(len(v.Running.First)) + v.Running.More }
