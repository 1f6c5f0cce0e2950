package report

import (
	"time"

	"github.com/hipq/hipq/monitor"
)

// List has the first items of a list, so that the page stays short.
type List[T any] struct {
	First []T
	// More is how many further items of kind Thing Command lists.
	More           int64
	Thing, Command string
}

// listed is how many items a List shows.
const listed = 20

// ListOf makes a List of all items.
func ListOf[T any](all []T, thing, command string) List[T] {
	n := min(len(all), listed)
	return List[T]{First: all[:n], More: int64(len(all) - n), Thing: thing, Command: command}
}

// Running is a running job.
type Running struct {
	Queue, JobType string
	ID             int64
	Attempt        int
	// Progress is what the job reported; empty if nothing.
	Progress string
	Start    time.Time
	// Host is the worker's host; empty if the worker is gone.
	Host string
}

// Schedule is a recurring job. Times that don't exist are zero.
type Schedule struct {
	Name, When, Queue, JobType string
	// Next and Last are slots of the schedule. Missed is the last slot without a job.
	Next, Last, Missed time.Time
	// Overdue is set if no worker handles the next slot. MissedLately is set if someone must hear of the missed slot.
	Overdue, MissedLately bool
	Remark                string
}

// Urgency ranks schedules by how soon someone must look at them, the most urgent highest.
func (s Schedule) Urgency() int {
	switch {
	case s.Overdue:
		return 2
	case s.MissedLately:
		return 1
	}
	return 0
}

// Host has the active workers of a host.
type Host struct {
	Name string
	// Silent is how many of the Workers missed a renewal of their locks.
	Workers, Silent int
	// Slots is how many jobs the workers may run at once. Running is how many they run.
	Slots, Running int
	// Since is when the first worker started. Heartbeat is the latest heartbeat of any.
	Since, Heartbeat time.Time
}

// Start is when a worker started, and where.
type Start struct {
	Host string
	At   time.Time
}

// HasWorkers reports whether the page has a section about workers.
func (v View) HasWorkers() bool {
	w := v.Window("1w")
	return len(v.Hosts.First) > 0 || v.LastStart != nil || w != nil && len(w.Ticks.Hosts) > 0
}

// Added is how many jobs were added since the last complete hour.
func (v View) Added() (n int64) {
	if v.Current != nil {
		for _, q := range v.Current.Queues {
			n += q.Added
		}
	}
	return n
}

// Idle reports whether no job ran for a week, as in a new instance.
func (v View) Idle() bool {
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

// tone is the severity of a figure by the limits of the config, as the CSS class of its cell.
type tone int

func (t tone) String() string { return [...]string{"", " warned", " bad"}[t] }

func over(l monitor.Limits, value float64) tone {
	severity, _ := l.Verdict(value)
	return tone(severity.Rank())
}

// overMS is over for milliseconds; nil has no tone.
func overMS(l monitor.Limits, ms *int64) tone {
	if ms == nil {
		return 0
	}
	return over(l, float64(*ms)/1000)
}

// Due is how many jobs were due at the end of the last hour, and how long the oldest had been due.
type Due struct {
	Jobs, OldestMS int64
	Many, Old      tone
}

// Due returns the due jobs of a queue, or of all without a name; nil if not measured.
func (v View) Due(queue string) (d *Due) {
	for _, g := range v.Gauges {
		if queue != "" && g.Queue != queue {
			continue
		}
		if d == nil {
			d = &Due{}
		}
		limits := v.Alert.Of(g.Queue, g.JobType)
		d.Jobs, d.OldestMS = d.Jobs+g.Backlog, max(d.OldestMS, g.OldestDueMS)
		d.Many, d.Old = max(d.Many, over(limits.Backlog, float64(g.Backlog))), max(d.Old, overMS(limits.OldestDue, &g.OldestDueMS))
	}
	return d
}

// Slot formats the time of a slot, if there is one.
func (v View) Slot(t time.Time) string {
	if t.IsZero() {
		return none
	}
	return v.Minute(t)
}

// Since formats how long ago a time was.
func (v View) Since(t time.Time) string { return duration(v.Made.Sub(t).Milliseconds()) }

// RunningJobs is how many jobs run.
func (v View) RunningJobs() int64 { return int64(len(v.Running.First)) + v.Running.More }
