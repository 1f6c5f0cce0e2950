package queue

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/internal/shell"
	"github.com/hipq/hipq/queue/job"
)

// Reason is why a job isn't running: a word, which stays as it is, and a sentence for people.
type Reason struct {
	Word string `json:"reason"`
	Text string `json:"text"`
}

func because(word, format string, args ...any) Reason {
	return Reason{word, fmt.Sprintf(format, args...)}
}

// Reasons are the answers to why the job isn't running, the most telling first; for one that runs, or is over, that.
func (w Why) Reasons() []Reason {
	j := w.Job
	if j.Flaw != nil && !j.Status.IsFinal() {
		return append([]Reason{because("flawed", "its row can't be a job's, and the next worker that comes to it ends it: %s", j.Flaw)}, w.nobody()...)
	}
	switch j.Status {
	case job.StatusFinished:
		return []Reason{because("finished", "it is final since %s", w.local(j.UpdateTime))}
	case job.StatusFailed, job.StatusClosed:
		reasons := []Reason{w.failed()}
		switch {
		case j.RetriedAs != 0:
			reasons = append(reasons, because("retried", "it was retried, as job %d", j.RetriedAs))
		case j.IsDismissed():
			reasons = append(reasons, because("dismissed", "it was dismissed"))
		}
		return reasons
	case job.StatusUndecided:
		return w.orNoHandler("undecided", "attempt %d failed (%s); the next worker that has a handler for %s decides whether it is tried again",
			j.Attempt, j.Error, j.Type)
	case job.StatusLocked, job.StatusRunning, job.StatusAnswered, job.StatusDeciding:
		return w.locked()
	case job.StatusAwaiting:
		return append([]Reason{because("waiting", "attempt %d is waiting for an answer since %s, at most until %s: hipq complete %s %s %s, or hipq fail",
			j.Attempt, w.local(j.StartTime), w.local(j.StartTime.Add(j.Timeout)), j.Queue, shell.Word(j.Type), shell.Word(j.Key))}, w.reached()...)
	case job.StatusSubmitted:
		return append([]Reason{because("new", "it was inserted by plain SQL, and the next worker takes it in")}, w.nobody()...)
	case job.StatusThrottled:
		return w.held()
	case job.StatusScheduled:
		return append([]Reason{w.later()}, w.nobody()...)
	}
	return w.due()
}

// failed is the reason of a job that is final and didn't finish. A hand other than hipq's may have left out the error.
func (w Why) failed() Reason {
	since := w.local(w.Job.UpdateTime)
	if w.Job.Error == job.None {
		return because("failed", "it is final since %s, without an error", since)
	}
	return because("failed", "it is final since %s, with the error: %s", since, w.Job.Error)
}

// nobody says whether it looks as if no worker ran at all.
func (w Why) nobody() []Reason {
	const long = 5 * time.Minute
	switch {
	case w.last == nil:
		return []Reason{because("no_worker", "no worker has run yet: is hipq work in crontab?")}
	case w.now.Sub(w.last.Heartbeat.Time) > long:
		return []Reason{because("no_worker", "no worker has run for %s (the last: pid %d on %s): is hipq work in crontab?",
			brief(w.now.Sub(w.last.Heartbeat.Time)), w.last.PID, w.last.Host)}
	}
	return nil
}

func (w Why) later() Reason {
	at := w.local(w.Job.ScheduledRunTime)
	switch {
	case !w.Job.ScheduledRunTime.After(w.now):
		return because("due", "it has been due since %s, and the next worker sees to it", at)
	case w.Job.State() == job.Retry:
		return because("retry", "attempt %d failed (%s); the next is due at %s", w.Job.Attempt, w.Job.Error, at)
	case len(w.Job.Windows) > 0 && !w.Job.Windows.Contains(w.now.In(w.options.Location)):
		return because("window", "it is not due until %s; its windows are %s, and closed now", at, strings.Join(w.Job.Windows.Strings(), ", "))
	}
	return because("scheduled", "it is not due until %s", at)
}

// reached says how far the attempt has come, if its handler has said so.
func (w Why) reached() []Reason {
	p, ok := w.Job.Reached()
	if !ok {
		return nil
	}
	return []Reason{because("progress", "it has reached %s, as its handler said %s ago", p, brief(max(0, w.now.Sub(p.Time))))}
}

func (w Why) locked() []Reason {
	who, until := "worker "+w.Job.WorkerID+", which is not known any more", ""
	if w.worker != nil {
		who = fmt.Sprintf("worker %s (pid %d on %s), ", w.worker.ID, w.worker.PID, w.worker.Host)
		switch dead, silent := w.worker.Silent(w.now); {
		case w.worker.State != "working" || silent && dead == 0:
			who += fmt.Sprintf("whose lock lasted until %s and is over: the next worker takes the job back", w.local(w.worker.LockUntil.Time))
		case silent:
			who += fmt.Sprintf("of which nothing was heard for %s: unless it comes back it is declared dead in %s, and the next worker takes the job back",
				brief(w.now.Sub(w.worker.Heartbeat.Time)), brief(dead))
		default:
			who += "whose lock lasts until " + w.local(w.worker.LockUntil.Time)
			until = ", at most until " + w.local(w.Job.StartTime.Add(w.Job.Timeout)) // of one that is lost the timeout says nothing
		}
	}
	var reasons []Reason
	switch w.Job.State() {
	case job.Running:
		reasons = []Reason{because("running", "attempt %d is running since %s%s, by %s", w.Job.Attempt, w.local(w.Job.StartTime), until, who)}
		reasons = append(reasons, w.reached()...)
	case job.Error:
		reasons = []Reason{because("deciding", "attempt %d failed (%s); a retry handler decides whether it is tried again, run by %s",
			w.Job.Attempt, w.Job.Error, who)}
	default:
		return []Reason{because("locked", "it is locked, to start when a slot is free, by %s", who)}
	}
	if w.Job.Stopping {
		reasons = append(reasons, because("stopping", "it was cancelled, and its worker is asked to stop it"))
	}
	return reasons
}

// barred gives what stands in the way of any job of its type.
func (w Why) barred() (reasons []Reason) {
	if w.misplaced {
		reasons = append(reasons, w.isMisplaced())
	}
	if w.paused {
		reasons = append(reasons, because("paused", "the queue is paused: hipq queue resume %s", w.Job.Queue))
	}
	return append(reasons, w.unhandled()...)
}

// isMisplaced says that the job is in none of the queue's shards.
func (w Why) isMisplaced() Reason {
	return because("misplaced", "it was placed when the queue was divided into shards otherwise: the next worker moves it to where it belongs")
}

// inShard says in which shard the job is, where there are several; nil if there is but one.
func (w Why) inShard() []Reason {
	if w.division.Of == 1 || w.misplaced {
		return nil
	}
	return []Reason{because("shard", "it is in shard %d of %d, which has its own order", w.shard, w.division.Of)}
}

// unhandled says why workers here have no handler for the job's type, if they don't.
func (w Why) unhandled() []Reason {
	switch {
	case w.division.Otherwise != nil:
		return []Reason{because("divided_otherwise", "workers of this config leave the queue out: %s", w.division.Otherwise)}
	case !w.handled:
		return []Reason{because("no_handler", "this config has no handler for job type %s", w.Job.Type)}
	case w.leftOut != "":
		return []Reason{because("left_out", "on this host, workers of this user leave job type %s out: %s", w.Job.Type, w.leftOut)}
	}
	return nil
}

// held gives what stands in the way of a job whose throttle group was full.
func (w Why) held() []Reason {
	reasons := w.barred()
	switch full, limit := w.groupFull(), w.groupLimit(); {
	case limit == 0:
		reasons = append(reasons, because("held", "its throttle group was full, and has no limit any more: the next worker starts it"))
	case full != nil:
		reasons = append(reasons, *full)
	default:
		reasons = append(reasons, because("held", "its throttle group %s was full; %d of %d are taken now, and the next worker starts the first of the group",
			w.group, w.groupUsed, limit))
	}
	return slices.Concat(reasons, w.nobody(), w.inShard())
}

// groupLimit is that of the job's throttle group; 0 is none.
func (w Why) groupLimit() int {
	if w.options.ThrottleGroups == nil {
		return 0
	}
	return w.options.ThrottleGroups.Limit(w.group)
}

// groupFull says that the job's throttle group has no room for it; nil if it has.
func (w Why) groupFull() *Reason {
	limit, factor := w.groupLimit(), w.Job.ThrottleFactor
	if limit == 0 || factor == 0 || rules.Allows(limit, w.groupUsed, factor) {
		return nil
	}
	full := because("group_full", "throttled: of group %s %d of %d are taken, and its factor is %d", w.group, w.groupUsed, limit, factor)
	return &full
}

// due gives all that stands in the way of a job that is due.
func (w Why) due() []Reason {
	reasons := w.barred()
	if opening := w.Job.Windows.Next(w.now.In(w.options.Location)); opening.After(w.now) {
		reasons = append(reasons, because("window", "its window opens at %s", w.local(opening)))
	}
	if full := w.limitFull(); full != nil {
		reasons = append(reasons, *full)
	}
	if full := w.groupFull(); full != nil {
		reasons = append(reasons, *full)
	}
	if w.rate > 0 {
		reasons = append(reasons, w.rateUsedUp())
	}
	for _, full := range w.fullLanes {
		reasons = append(reasons, w.full(full))
	}
	reasons = append(reasons, w.nobody()...)
	if w.rowHeld {
		reasons = append(reasons, because("row_held", "another transaction holds its row: does an application keep one open?"))
	}
	switch w.Ahead {
	case 0:
	case 1:
		reasons = append(reasons, because("behind", "1 due job is before it"))
	default:
		reasons = append(reasons, because("behind", "%d due jobs are before it", w.Ahead))
	}
	if len(reasons) == 0 {
		reasons = []Reason{because("due", "nothing stands in its way: the next worker with a free slot takes it")}
	}
	if w.Job.IsQuarantined() {
		reasons = append(reasons, because("quarantined", "%d attempts in a row ended with their workers: hipq work quarantines the next, in a process of its own", w.Job.Losses))
	}
	return append(reasons, w.inShard()...)
}

// limitFull says that the queue's limit, or the shard's part of it, has no room for the job; nil if it has.
func (w Why) limitFull() *Reason {
	factor, limit := w.Job.ThrottleFactor, w.options.ThrottleLimit
	if limit < 1 || factor < 1 {
		return nil
	}
	if w.part == nil {
		if rules.Allows(limit, w.used, factor) {
			return nil
		}
		full := because("limit_full", "throttled: %d of %d are taken, and its factor is %d", w.used, limit, factor)
		return &full
	}
	share := w.part.share
	if rules.HasRoom(limit, share, w.used, factor) {
		return nil
	}
	full := because("limit_full", "throttled: of %d its shard holds %d, %d are taken there, and its factor is %d; the other shards hold %d%s",
		limit, share, w.used, factor, max(0, limit-max(share, w.used)), w.waits())
	return &full
}

// rateUsedUp says that the queue's rate, or the shard's part of it, lets no job start.
func (w Why) rateUsedUp() Reason {
	rate, wait := w.options.Rate, w.rate.Round(time.Millisecond)
	if w.part == nil {
		return because("rate", "the queue's rate of %d starts per %s is used up for %s", rate.Starts, rules.Brief(rate.Per), wait)
	}
	share, lately := w.part.rateShare, w.part.startsLately(rate, w.now)
	return because("rate", "of the queue's rate of %d starts per %s its shard holds %d, which is used up for %s; the other shards hold %d%s",
		rate.Starts, rules.Brief(rate.Per), share, wait, max(0, rate.Starts-max(share, lately)), w.waits())
}

// waits says for how long the shard has started nothing for want of the limit or the rate.
func (w Why) waits() string {
	if !w.part.waits(w.now) {
		return ""
	}
	return fmt.Sprintf("; it has started nothing for %s", brief(max(0, w.now.Sub(time.UnixMicro(w.part.waitSince)))))
}

// full says who holds all slots of a lane.
func (w Why) full(f fullLane) Reason {
	var workers []string
	for _, r := range f.Workers[:min(len(f.Workers), fullWorkers)] {
		text := fmt.Sprintf("worker %s (pid %d)", r.ID, r.PID)
		if dead, silent := r.Silent(w.now); silent {
			text += fmt.Sprintf(", silent for %s: unless it comes back it is declared dead in %s", brief(w.now.Sub(r.Heartbeat.Time)), brief(dead))
		}
		workers = append(workers, text)
	}
	if more := len(f.Workers) - len(workers); more > 0 {
		workers = append(workers, fmt.Sprintf("and %d more", more))
	}
	by := strings.Join(workers, "; ")
	if f.Lane == "" {
		return because("slots_full", "all %d slots of host %s are held, whether jobs run in them or not, by %s", f.Limit, f.Host, by)
	}
	return because("lane_full", "on %s, the concurrency %d of %s is used up, by %s", f.Host, f.Limit, f.Lane, by)
}

// fullWorkers is how many workers are named, at most, that hold the slots of a lane.
const fullWorkers = 10

func (w Why) orNoHandler(word, format string, args ...any) []Reason {
	reasons := []Reason{because(word, format, args...)}
	if w.misplaced {
		reasons = append(reasons, w.isMisplaced())
	}
	return slices.Concat(reasons, w.unhandled(), w.nobody())
}

func (w Why) local(t time.Time) string {
	return t.In(w.options.Location).Format("2006-01-02 15:04:05 MST")
}

// brief is a time of some seconds and more for people.
func brief(d time.Duration) string { return d.Round(time.Second).String() }
