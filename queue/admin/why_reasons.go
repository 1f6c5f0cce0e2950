package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// Reason is why a job isn't running: a word for programs and a sentence for people.
type Reason struct {
	// Word is "answered", "behind", "deciding", "dismissed", "divided_otherwise", "due", "failed", "finished", "flawed",
	// "group_full", "held", "lane_full", "left_out", "limit_full", "line", "locked", "misplaced", "new", "no_handler",
	// "no_worker", "paused", "progress", "quarantined", "rate", "retried", "retry", "row_held", "running", "scheduled",
	// "shard", "slots_full", "stopping", "undecided", "waiting" or "window".
	Word string `json:"reason"`
	// Text is a sentence for people. It may change.
	Text string `json:"text"`
}

func (w *Why) add(word, format string, args ...any) {
	w.Reasons = append(w.Reasons, Reason{word, fmt.Sprintf(format, args...)})
}

func (w *Why) addIf(condition bool, word, format string, args ...any) {
	if condition {
		w.add(word, format, args...)
	}
}

func (w *Why) explain() {
	j := w.Job
	flawed := j.Invalid != nil && !j.Status.IsFinal()
	ready := !flawed && (j.Status == job.StatusAvailable || j.Status == job.StatusThrottled)
	if w.standing(flawed); ready || !flawed && j.Status == job.StatusUndecided {
		w.barred(ready)
	}
	if ready {
		opening := j.Windows.Next(w.now.In(w.queue.s.Location))
		w.addIf(opening.After(w.now), "window", "its window opens at %s", w.local(opening))
		w.limitFull()
		w.groupFull()
		w.rateUsedUp()
		if j.Status != job.StatusThrottled || w.now.Sub(j.AskedTime) >= claim.AskLasts { // otherwise a worker with a slot asks for it
			w.lanesFull()
		}
	}
	if flawed || !j.Status.IsFinal() && !j.Status.HasWorker() && j.Status != job.StatusAwaiting {
		w.noWorker()
	}
	w.addIf(w.rowHeld, "row_held", "another transaction holds its row: does an application keep one open?")
	w.addIf(w.Ahead == 1, "behind", "1 due job is before it")
	atLeast := map[bool]string{true: "at least "}[w.Ahead == w.by.AheadMost]
	w.addIf(w.Ahead > 1, "behind", "%s%d due jobs are before it", atLeast, w.Ahead)
	w.addIf(len(w.Reasons) == 0, "due", "nothing stands in its way: the next worker with a free slot takes it")
	w.addIf(!flawed && !j.Status.IsFinal() && j.IsQuarantined(), "quarantined",
		"%d attempts in a row ended with their workers: it is quarantined, and hipq work runs it in a process of its own", j.Losses)
	w.addIf(ready && w.isShard(), "shard", "it is in shard %d of %d, which has its own order", w.shard, w.division.Of)
	w.addIf(j.Status.IsFinal() && j.RetriedAs != 0, "retried", "it was retried, as job %d", j.RetriedAs)
	w.addIf(j.IsDismissed(), "dismissed", "it was dismissed")
	p, ok := j.Reached()
	w.addIf(ok && j.State() == job.Running, "progress", "its progress is %s, reported %s ago",
		p, brief(max(0, w.now.Sub(p.Time))))
	w.addIf(j.Stopping && j.Status.HasWorker(), "stopping", "it was cancelled, and its worker is asked to stop it")
}

func (w *Why) isShard() bool { return w.placed && w.division.Of > 1 }

// standing explains jobs that can't start now because of their status.
func (w *Why) standing(flawed bool) {
	j := w.Job
	who, until := w.holder()
	answer := "finished"
	if j.Error != job.None {
		answer = "failed: " + j.Error
	}
	switch since := w.local(j.UpdateTime); {
	case flawed:
		w.add("flawed", "its row is not a valid job, and the next worker that reads it ends it: %s", j.Invalid)
	case j.Status == job.StatusSubmitted:
		w.add("new", "it was inserted by plain SQL, and the next worker takes it in")
	case j.Status == job.StatusScheduled:
		w.scheduled()
	case j.Status == job.StatusAvailable, j.Status == job.StatusThrottled: // separate reasons explain these
	case j.Status == job.StatusLocked:
		w.add("locked", "it starts when a slot is free: it is locked by %s", who)
	case j.Status == job.StatusRunning:
		w.add("running", "attempt %d has been running since %s%s, by %s", j.Attempt, w.local(j.StartTime), until, who)
	case j.Status == job.StatusAnswered:
		w.add("answered", "attempt %d was answered (%s), and ends with its handler, which runs%s, by %s", j.Attempt, answer, until, who)
	case j.Status == job.StatusAwaiting:
		w.add("waiting", "attempt %d has been waiting for an answer since %s, at most until %s: hipq complete %s %s %s, or hipq fail",
			j.Attempt, w.local(j.StartTime), w.local(j.StartTime.Add(j.Timeout)), j.Queue, texts.ShellWord(j.Type), texts.ShellWord(j.Key))
	case j.Status == job.StatusDeciding:
		w.add("deciding", "attempt %d failed (%s); a retry handler decides whether it is tried again, run by %s",
			j.Attempt, j.Error, who)
	case j.Status == job.StatusUndecided:
		w.add("undecided", "attempt %d failed (%s); the next worker that has a handler for %s decides whether it is tried again",
			j.Attempt, j.Error, j.Type)
	case j.Status == job.StatusFinished:
		w.add("finished", "it finished at %s, in attempt %d%s", since, j.Attempt, w.settler())
	case j.Error == job.None: // a change by plain SQL may lack it
		w.add("failed", "it ended at %s, without an error", since)
	default:
		w.add("failed", "it ended at %s, with the error: %s", since, j.Error)
	}
}

func (w *Why) scheduled() {
	j, at := w.Job, w.local(w.Job.ScheduledRunTime)
	switch {
	case !j.ScheduledRunTime.After(w.now):
		w.add("due", "it has been due since %s, and the next worker takes it", at)
	case j.State() == job.Retry && j.Error == job.None:
		w.add("released", "attempt %d released it without an error; the next is due at %s", j.Attempt, at)
	case j.State() == job.Retry:
		of := ""
		if t, ok := w.queue.s.Configured(j.Type); ok && !t.RetryHandler {
			of = fmt.Sprintf(" of %d", max(t.Retry.Attempts+j.Uncounted, j.Attempt))
		}
		w.add("retry", "attempt %d%s failed (%s); the next is due at %s", j.Attempt, of, j.Error, at)
	case len(j.Windows) > 0 && !j.Windows.Contains(w.now.In(w.queue.s.Location)):
		w.add("window", "it is not due until %s; its windows are %s, and closed now",
			at, strings.Join(j.Windows.Strings(), ", "))
	default:
		w.add("scheduled", "it is not due until %s", at)
	}
}

// holder returns the worker that has the job, and the attempt's latest end. A lost worker's timeout means nothing.
func (w *Why) holder() (who, until string) {
	if w.worker == nil {
		return "worker " + w.Job.WorkerID + ", which is no longer known", ""
	}
	who = fmt.Sprintf("worker %s (pid %d on %s), ", w.worker.ID, w.worker.PID, w.worker.Host)
	lock := w.local(w.worker.LockUntil.Time)
	switch dead, silent := w.worker.Silent(w.now); {
	case w.worker.State != "working" || silent && dead == 0:
		return who + "whose lock expired at " + lock + ": the next worker takes the job back", ""
	case silent:
		return who + fmt.Sprintf("silent for %s: unless it comes back it is declared dead in %s,"+
			" and the next worker takes the job back", brief(w.now.Sub(w.worker.Heartbeat.Time)), brief(dead)), ""
	}
	t, _ := w.queue.s.Configured(w.Job.Type)
	until = ", at most until " + w.local(w.Job.StartTime.Add(t.StartTimeout+w.Job.Timeout))
	if t.StartTimeout > 0 {
		until += fmt.Sprintf(" (%s after its program is ready, which may take %s)", policy.Brief(w.Job.Timeout), policy.Brief(t.StartTimeout))
	}
	return who + "whose lock lasts until " + lock, until
}

// settler returns the worker that last ran a final job, if known.
func (w *Why) settler() string {
	switch {
	case w.worker != nil:
		return fmt.Sprintf(", by worker %s (pid %d on %s)", w.worker.ID, w.worker.PID, w.worker.Host)
	case w.Job.WorkerID != job.None && w.Job.WorkerID != "":
		return ", by worker " + w.Job.WorkerID
	}
	return ""
}

func (w *Why) barred(ready bool) {
	w.addIf(!w.placed, "misplaced",
		"it was placed when the queue was divided differently: the next worker moves it to its shard")
	w.addIf(ready && w.paused, "paused", "the queue is paused: hipq queues resume %s", w.Job.Queue)
	name := w.served()
	switch leftOut := w.by.LeftOut[name]; {
	case w.division.Otherwise != nil:
		w.add("divided_otherwise", "workers of this config leave the queue out: %s", w.division.Otherwise)
	case w.by.Handled == nil:
		w.add("no_handler", "queue %s is not in this config", w.Job.Queue)
	case !slices.Contains(w.by.Handled, name):
		w.add("no_handler", "this config has no handler for job type %s", name)
	case leftOut != "":
		w.add("left_out", "on this host, workers of this user leave job type %s out: %s", name, leftOut)
	}
}

// served is the name under which the config has the job type's handler.
func (w *Why) served() string {
	if name := w.Job.Type; slices.Contains(w.by.Handled, name) || !slices.Contains(w.by.Handled, job.AllTypes) {
		return name
	}
	return job.AllTypes
}

// groupFull says if the job's throttle group has no room, or had none in the last round.
func (w *Why) groupFull() {
	group, factor, held := w.Job.Group, w.Job.ThrottleFactor, w.Job.Status == job.StatusThrottled && w.Job.AskedTime.IsZero()
	switch limit := w.limits[claim.Scope(group)]; {
	case limit != nil && factor > 0 && !limit.HasRoom(factor):
		w.add("group_full", "group full: jobs use %d of %d in group %s, and this one counts %d: wait, or raise the group's limit", limit.Used, limit.Max, group, factor)
	case held && limit != nil:
		w.addIf(!w.paused, "held", "its throttle group %s has room now (jobs use %d of %d): the next worker starts the group's jobs in their order",
			group, limit.Used, limit.Max)
	}
}

// limitFull says if the queue's limit, or the shard's part of it, has no room for the job.
func (w *Why) limitFull() {
	factor, limit := w.Job.ThrottleFactor, w.limits[claim.Queue]
	switch {
	case limit == nil || factor < 1 || limit.HasRoom(factor):
	case w.isShard():
		w.add("limit_full", "limit full: its shard holds %d of %d, %d are taken there, and its factor is %d%s",
			limit.Max, limit.Whole, limit.Used, factor, w.others(limit.Whole, max(limit.Max, limit.Used)))
	default:
		w.add("limit_full", "limit full: jobs use %d of throttle_limit %d, and this one counts %d: wait, or raise throttle_limit", limit.Used, limit.Max, factor)
	}
	w.addIf(w.behind != 0, "line", "job %d is before it and waits for room: nothing behind that starts", w.behind)
}

// rateUsedUp says if the queue's rate, or the shard's part of it, blocks all starts.
func (w *Why) rateUsedUp() {
	rate, row, wait := w.queue.s.Rate, w.row, w.RateWait.Round(time.Millisecond)
	switch {
	case w.RateWait == 0:
	case w.isShard():
		w.add("rate", "its shard holds %d of the queue's rate of %s per %s, which is used up for %s%s",
			row.RateShare, texts.Count(rate.Starts, "start"), policy.Brief(rate.Per), wait,
			w.others(rate.Starts, max(row.RateShare, row.StartsLately(rate))))
	default:
		w.add("rate", "the queue's rate of %s per %s is used up for %s", texts.Count(rate.Starts, "start"), policy.Brief(rate.Per), wait)
	}
}

// others says what other shards hold of a limit, and how long it has kept the job's shard from starting any job.
func (w *Why) others(limit, held int) string {
	text := fmt.Sprintf("; the other shards hold %d", max(0, limit-held))
	if row := w.row; row.Waits() {
		text += fmt.Sprintf("; the shard has started nothing for %s", brief(max(0, w.now.Sub(time.UnixMicro(row.WaitSince)))))
	}
	return text
}

// lanesFull says where workers hold all slots of the host's, queue's or job type's concurrency.
func (w *Why) lanesFull() {
	q, name := w.queue, w.Job.Type
	own, _ := q.s.Configured(name)
	if own.Name != name || own.Concurrency == 0 {
		name = w.served()
	}
	t, _ := q.s.Configured(name)
	hosts := texts.Map(w.atWork, func(r workers.Row) string { return r.Host })
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		w.laneFull(host, "", w.by.Concurrency)
		w.laneFull(host, workers.Lane(q.s.Name, ""), q.s.Concurrency)
		w.laneFull(host, workers.Lane(q.s.Name, name), t.Concurrency)
	}
}

// laneFull says which workers hold all slots of a lane on a host. The host's own lane has no name.
func (w *Why) laneFull(host, lane string, limit int) {
	taken, by := 0, []string{}
	for _, r := range w.atWork {
		n := r.ByLane()[lane]
		if r.Host != host || n < 1 || !r.LockUntil.After(w.now) { // without a lock its slots are free
			continue
		}
		text := fmt.Sprintf("worker %s (pid %d)", r.ID, r.PID)
		if dead, silent := r.Silent(w.now); silent {
			text += fmt.Sprintf(", silent for %s: unless it comes back it is declared dead in %s",
				brief(w.now.Sub(r.Heartbeat.Time)), brief(dead))
		}
		taken, by = taken+n, append(by, text)
	}
	full, who := limit > 0 && taken >= limit, strings.Join(by, "; ")
	w.addIf(full && lane == "" && limit == 1, "slots_full", "the only slot of host %s is held, whether a job runs in it or not, by %s",
		host, who)
	w.addIf(full && lane == "" && limit > 1, "slots_full", "all %d slots of host %s are held, whether jobs run in them or not, by %s",
		limit, host, who)
	w.addIf(full && lane != "", "lane_full", "on %s, the concurrency %d of %s is used up, by %s", host, limit, lane, who)
}

func (w *Why) local(t time.Time) string {
	return t.In(w.queue.s.Location).Format("2006-01-02 15:04:05 MST")
}

// brief formats a duration of some seconds or more for people.
func brief(d time.Duration) string { return d.Round(time.Second).String() }
