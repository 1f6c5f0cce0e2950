package queue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/internal/shell"
	"github.com/hipq/hipq/queue/job"
)

// Reason is why a job isn't running: a word, which stays as it is, and a sentence for people.
type Reason struct {
	Word string `json:"reason"`
	Text string `json:"text"`
}

// reasons are the reasons that are found, one after the other, in what is known of a job.
type reasons struct {
	Why
	found []Reason
}

func (r *reasons) add(word, format string, args ...any) {
	r.found = append(r.found, Reason{word, fmt.Sprintf(format, args...)})
}

func (r *reasons) addIf(condition bool, word, format string, args ...any) {
	if condition {
		r.add(word, format, args...)
	}
}

// Reasons are the answers to why the job isn't running, the most telling first; for one that runs, or is over, that.
func (w Why) Reasons() []Reason {
	j, r := w.Job, reasons{Why: w}
	who, until := w.holder()
	switch since := w.local(j.UpdateTime); {
	case j.Flaw != nil && !j.Status.IsFinal():
		r.add("flawed", "its row can't be a job's, and the next worker that comes to it ends it: %s", j.Flaw)
		r.nobody()
	case j.Status == job.StatusSubmitted:
		r.add("new", "it was inserted by plain SQL, and the next worker takes it in")
		r.nobody()
	case j.Status == job.StatusScheduled:
		r.scheduled()
		r.nobody()
	case j.Status == job.StatusAvailable:
		r.available()
	case j.Status == job.StatusThrottled:
		r.throttled()
	case j.Status == job.StatusLocked:
		r.add("locked", "it is locked, to start when a slot is free, by %s", who)
	case j.Status == job.StatusRunning:
		r.add("running", "attempt %d is running since %s%s, by %s", j.Attempt, w.local(j.StartTime), until, who)
	case j.Status == job.StatusAwaiting:
		r.add("waiting", "attempt %d is waiting for an answer since %s, at most until %s: hipq complete %s %s %s, or hipq fail",
			j.Attempt, w.local(j.StartTime), w.local(j.StartTime.Add(j.Timeout)), j.Queue, shell.Word(j.Type), shell.Word(j.Key))
	case j.Status == job.StatusAnswered, j.Status == job.StatusDeciding:
		r.add("deciding", "attempt %d failed (%s); a retry handler decides whether it is tried again, run by %s",
			j.Attempt, j.Error, who)
	case j.Status == job.StatusUndecided:
		r.add("undecided", "attempt %d failed (%s); the next worker that has a handler for %s decides whether it is tried again",
			j.Attempt, j.Error, j.Type)
		r.misplaced()
		r.unhandled()
		r.nobody()
	case j.Status == job.StatusFinished:
		r.add("finished", "it is final since %s", since)
	case j.Error == job.None: // a hand other than hipq's may have left it out
		r.add("failed", "it is final since %s, without an error", since)
	default:
		r.add("failed", "it is final since %s, with the error: %s", since, j.Error)
	}
	r.addIf(j.Status.IsFinal() && j.RetriedAs != 0, "retried", "it was retried, as job %d", j.RetriedAs)
	r.addIf(j.IsDismissed(), "dismissed", "it was dismissed")
	p, ok := j.Reached()
	r.addIf(ok && j.State() == job.Running, "progress", "it has reached %s, as its handler said %s ago",
		p, brief(max(0, w.now.Sub(p.Time))))
	r.addIf(j.Stopping && j.Status.HasWorker(), "stopping", "it was cancelled, and its worker is asked to stop it")
	return r.found
}

func (r *reasons) scheduled() {
	j, at := r.Job, r.local(r.Job.ScheduledRunTime)
	switch {
	case !j.ScheduledRunTime.After(r.now):
		r.add("due", "it has been due since %s, and the next worker sees to it", at)
	case j.State() == job.Retry:
		r.add("retry", "attempt %d failed (%s); the next is due at %s", j.Attempt, j.Error, at)
	case len(j.Windows) > 0 && !j.Windows.Contains(r.now.In(r.queue.Location)):
		r.add("window", "it is not due until %s; its windows are %s, and closed now",
			at, strings.Join(j.Windows.Strings(), ", "))
	default:
		r.add("scheduled", "it is not due until %s", at)
	}
}

// nobody says whether it looks as if no worker ran at all.
func (r *reasons) nobody() {
	const long = 5 * time.Minute
	if r.last == nil {
		r.add("no_worker", "no worker has run yet: is hipq work in crontab?")
	} else if silent := r.now.Sub(r.last.Heartbeat.Time); silent > long {
		r.add("no_worker", "no worker has run for %s (the last: pid %d on %s): is hipq work in crontab?",
			brief(silent), r.last.PID, r.last.Host)
	}
}

// holder says which worker has the job, and until when the attempt lasts at most. Of a lost worker the timeout says nothing.
func (w Why) holder() (who, until string) {
	if w.worker == nil {
		return "worker " + w.Job.WorkerID + ", which is not known any more", ""
	}
	who = fmt.Sprintf("worker %s (pid %d on %s), ", w.worker.ID, w.worker.PID, w.worker.Host)
	lock := w.local(w.worker.LockUntil.Time)
	switch dead, silent := w.worker.Silent(w.now); {
	case w.worker.State != "working" || silent && dead == 0:
		return who + "whose lock lasted until " + lock + " and is over: the next worker takes the job back", ""
	case silent:
		return who + fmt.Sprintf("of which nothing was heard for %s: unless it comes back it is declared dead in %s,"+
			" and the next worker takes the job back", brief(w.now.Sub(w.worker.Heartbeat.Time)), brief(dead)), ""
	}
	return who + "whose lock lasts until " + lock, ", at most until " + w.local(w.Job.StartTime.Add(w.Job.Timeout))
}

// barred says what stands in the way of any job of its type.
func (r *reasons) barred() {
	r.misplaced()
	r.addIf(r.paused, "paused", "the queue is paused: hipq queue resume %s", r.Job.Queue)
	r.unhandled()
}

func (r *reasons) misplaced() {
	r.addIf(!r.placed, "misplaced",
		"it was placed when the queue was divided into shards otherwise: the next worker moves it to where it belongs")
}

// unhandled says why workers here have no handler for the job's type, if they don't.
func (r *reasons) unhandled() {
	name := r.Job.Type
	switch leftOut := r.by.LeftOut[name]; {
	case r.division.Otherwise != nil:
		r.add("divided_otherwise", "workers of this config leave the queue out: %s", r.division.Otherwise)
	case !slices.Contains(r.by.Handled, name):
		r.add("no_handler", "this config has no handler for job type %s", name)
	case leftOut != "":
		r.add("left_out", "on this host, workers of this user leave job type %s out: %s", name, leftOut)
	}
}

// throttled says what stands in the way of a job whose throttle group was full.
func (r *reasons) throttled() {
	r.barred()
	switch limit := r.groupLimit(); {
	case limit == 0:
		r.add("held", "its throttle group was full, and has no limit any more: the next worker starts it")
	case !r.groupFull():
		r.add("held", "its throttle group %s was full; %d of %d are taken now, and the next worker starts the first of the group",
			r.group, r.groupUsed, limit)
	}
	r.nobody()
	r.inShard()
}

// groupLimit is that of the job's throttle group; 0 is none.
func (w Why) groupLimit() int {
	if w.queue.ThrottleGroups == nil {
		return 0
	}
	return w.queue.ThrottleGroups.Limit(w.group)
}

// groupFull says if the job's throttle group has no room for it.
func (r *reasons) groupFull() bool {
	limit, factor := r.groupLimit(), r.Job.ThrottleFactor
	full := limit > 0 && factor > 0 && !rules.Allows(limit, r.groupUsed, factor)
	r.addIf(full, "group_full", "throttled: of group %s %d of %d are taken, and its factor is %d",
		r.group, r.groupUsed, limit, factor)
	return full
}

// inShard says in which shard the job is, where there are several.
func (r *reasons) inShard() {
	r.addIf(r.placed && r.division.Of > 1, "shard", "it is in shard %d of %d, which has its own order", r.shard, r.division.Of)
}

// available says all that stands in the way of a job that is due.
func (r *reasons) available() {
	r.barred()
	opening := r.Job.Windows.Next(r.now.In(r.queue.Location))
	r.addIf(opening.After(r.now), "window", "its window opens at %s", r.local(opening))
	r.limitFull()
	r.groupFull()
	r.rateUsedUp()
	r.lanesFull()
	r.nobody()
	r.addIf(r.rowHeld, "row_held", "another transaction holds its row: does an application keep one open?")
	r.addIf(r.Ahead == 1, "behind", "1 due job is before it")
	r.addIf(r.Ahead > 1, "behind", "%d due jobs are before it", r.Ahead)
	r.addIf(len(r.found) == 0, "due", "nothing stands in its way: the next worker with a free slot takes it")
	r.addIf(r.Job.IsQuarantined(), "quarantined",
		"%d attempts in a row ended with their workers: hipq work quarantines the next, in a process of its own", r.Job.Losses)
	r.inShard()
}

// limitFull says if the queue's limit, or the shard's part of it, has no room for the job.
func (r *reasons) limitFull() {
	factor, limit, share := r.Job.ThrottleFactor, r.queue.ThrottleLimit, r.row.share
	switch {
	case limit < 1 || factor < 1 || rules.HasRoom(limit, share, r.used, factor):
	case r.placed && r.division.Of > 1:
		r.add("limit_full",
			"throttled: of %d its shard holds %d, %d are taken there, and its factor is %d; the other shards hold %d%s",
			limit, share, r.used, factor, max(0, limit-max(share, r.used)), r.waits())
	default:
		r.add("limit_full", "throttled: %d of %d are taken, and its factor is %d", r.used, limit, factor)
	}
}

// rateUsedUp says if the queue's rate, or the shard's part of it, lets no job start.
func (r *reasons) rateUsedUp() {
	rate, share, wait := r.queue.Rate, r.row.rateShare, r.RateWait().Round(time.Millisecond)
	switch {
	case r.RateWait() == 0:
	case r.placed && r.division.Of > 1:
		r.add("rate",
			"of the queue's rate of %d starts per %s its shard holds %d, which is used up for %s; the other shards hold %d%s",
			rate.Starts, rules.Brief(rate.Per), share, wait, max(0, rate.Starts-max(share, r.row.startsLately(rate))), r.waits())
	default:
		r.add("rate", "the queue's rate of %d starts per %s is used up for %s", rate.Starts, rules.Brief(rate.Per), wait)
	}
}

// waits says for how long the shard has started nothing for want of the limit or the rate.
func (w Why) waits() string {
	if !w.row.waits() {
		return ""
	}
	return fmt.Sprintf("; it has started nothing for %s", brief(max(0, w.now.Sub(time.UnixMicro(w.row.waitSince)))))
}

// lanesFull says where workers hold all slots of a concurrency that the job comes under: the host's, the queue's or the job
// type's own.
func (r *reasons) lanesFull() {
	q, name := r.queue, r.Job.Type
	byHost := map[string][]roster.Row{}
	for _, w := range r.atWork {
		if w.LockUntil.After(r.now) { // else its slots are free
			byHost[w.Host] = append(byHost[w.Host], w)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		r.laneFull(host, byHost[host], "", r.by.Concurrency)
		r.laneFull(host, byHost[host], roster.Lane(q.Name, ""), q.Concurrency)
		r.laneFull(host, byHost[host], roster.Lane(q.Name, name), q.configured[name].Concurrency)
	}
}

// laneFull says who holds the slots of a lane on a host, if they hold all. The host's own lane has no name.
func (r *reasons) laneFull(host string, workers []roster.Row, lane string, limit int) {
	const most = 10
	taken, by := 0, []string{}
	for _, w := range workers {
		n := w.ByLane()[lane]
		if n < 1 {
			continue
		}
		text := fmt.Sprintf("worker %s (pid %d)", w.ID, w.PID)
		if dead, silent := w.Silent(r.now); silent {
			text += fmt.Sprintf(", silent for %s: unless it comes back it is declared dead in %s",
				brief(r.now.Sub(w.Heartbeat.Time)), brief(dead))
		}
		taken, by = taken+n, append(by, text)
	}
	if more := len(by) - most; more > 0 {
		by = append(by[:most], fmt.Sprintf("and %d more", more))
	}
	full, who := limit > 0 && taken >= limit, strings.Join(by, "; ")
	r.addIf(full && lane == "", "slots_full", "all %d slots of host %s are held, whether jobs run in them or not, by %s",
		limit, host, who)
	r.addIf(full && lane != "", "lane_full", "on %s, the concurrency %d of %s is used up, by %s", host, limit, lane, who)
}

func (w Why) local(t time.Time) string {
	return t.In(w.queue.Location).Format("2006-01-02 15:04:05 MST")
}

// brief is a time of some seconds and more for people.
func brief(d time.Duration) string { return d.Round(time.Second).String() }
