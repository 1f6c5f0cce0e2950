package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/doctor"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

func (a *app) statusCommand() *cobra.Command {
	var every time.Duration
	var o statusOptions
	c := command("status", func(cmd *cobra.Command, _ []string) error {
		show := func() error {
			return a.open(cmd, patient, func(i *instance) error { return a.runStatus(cmd, i, o) })
		}
		if every == 0 {
			return show()
		}
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		return a.watch(cmd.Context(), every, c.Location, show)
	})
	durationVar(c.Flags(), &every, "watch", "", "repeat it at this interval, in place on a terminal, until ^C").positive = true
	c.Flags().Lookup("watch").NoOptDefVal = "2s"
	c.Flags().BoolVar(&o.shards, "shards", false, "also show each shard of queues that have several; --json always does")
	c.Flags().BoolVar(&o.exact, "exact", false, "count all jobs, however many there are; --json and --shards always do")
	return c
}

type statusOptions struct{ shards, exact bool }

type queueStatus struct {
	Queue string `json:"queue"`
	admin.Counts
	// Unhandled are the due job types that no worker handled lately.
	Unhandled []unhandledType `json:"unhandled"`
	// Progressing are the five running jobs that reported progress last.
	Progressing []progressingJob `json:"progressing"`
	// Quarantined are at most five jobs whose last attempts ended with their workers.
	Quarantined []quarantinedJob `json:"quarantined"`
	// Shards is the number of shards.
	Shards int `json:"shards"`
	// ByShard is each shard; empty if there is only one.
	ByShard []shardStatus `json:"by_shard"`
	// Misplaced is the number of jobs outside of the shards. The next worker or hipq init moves them.
	Misplaced int64 `json:"misplaced"`
	// DividedOtherwise is how the shards or limits in the database and in the config differ, if they do. Workers with this config leave
	// the queue out.
	DividedOtherwise *string `json:"divided_otherwise"`
	// more are the statuses of which not all jobs were counted.
	more map[admin.Status]bool
}

type progressingJob struct {
	ID      int64  `json:"id"`
	Type    string `json:"job_type"`
	Attempt int    `json:"attempt"`
	job.ProgressJSON
	said string
}

// progressingMost is how many progressing and how many quarantined jobs of a queue status shows.
const progressingMost = 5

type quarantinedJob struct {
	ID   int64  `json:"id"`
	Type string `json:"job_type"`
	// Losses is the number of such attempts in a row.
	Losses int `json:"losses"`
}

type unhandledType struct {
	Type string `json:"job_type"`
	// OldestDue is since when the oldest due job of the type waits.
	OldestDue job.Time `json:"oldest_due"`
}

// unfitQueue is a queue whose table can't be used as it is.
type unfitQueue struct {
	Queue string `json:"queue"`
	// Error is why the queue can't be used.
	Error  string `json:"error"`
	remedy string
}

type workerStatus struct {
	ID   string `json:"id"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// State is "working", "finished" or "error" (dead).
	State     string   `json:"state"`
	StartTime job.Time `json:"start_time"`
	// Heartbeat is when the worker last renewed its lock.
	Heartbeat job.Time `json:"heartbeat"`
	// LockUntil is when the lock expires.
	LockUntil job.Time `json:"lock_until"`
	EndTime   job.Time `json:"end_time"`
	// Slots is the number of slots of its host that the worker holds.
	Slots int `json:"slots"`
	// silence says what to expect of a worker that missed a renewal.
	silence string
}

type statusReport struct {
	// Queues are the queues and their jobs.
	Queues []queueStatus `json:"queues"`
	// LeftOut are the queues that can't be used.
	LeftOut []unfitQueue `json:"left_out"`
	// LastWorker is the worker that started last, except by hand.
	LastWorker *workerStatus `json:"last_worker"`
	// Workers are the workers at work, or killed and not yet declared dead.
	Workers []workerStatus `json:"workers"`
	// Unmonitored is since when hipq monitor has not aggregated, if that is a day. Later activity can't be purged.
	Unmonitored job.Time `json:"unmonitored"`
	now         time.Time
}

func (a *app) runStatus(cmd *cobra.Command, i *instance, o statusOptions) error {
	queues, err := i.queues(cmd.Context())
	if err != nil {
		return err
	}
	report := statusReport{Queues: []queueStatus{}, LeftOut: []unfitQueue{}}
	for _, name := range slices.Sorted(maps.Keys(i.unfit)) {
		_, remedy := schema.Diagnose(i.unfit[name])
		report.LeftOut = append(report.LeftOut, unfitQueue{name, i.unfit[name].Error(), a.printed(remedy)})
	}
	last, err := workers.New(i.db).Last(cmd.Context())
	if err != nil {
		return err
	}
	for _, q := range queues {
		most := max(1000, talliedMost/int64(len(queues)))
		if o.exact || o.shards || a.json {
			most = 0
		}
		s, err := i.queueStatus(cmd.Context(), q, or0(last).Heartbeat.Time, most)
		if err != nil {
			return err
		}
		report.Queues = append(report.Queues, s)
	}
	now, err := i.db.SQL.Clock(cmd.Context())
	if err != nil {
		return err
	}
	atWork, err := workers.New(i.db).AtWork(cmd.Context())
	if err != nil {
		return err
	}
	report.Workers = texts.Map(atWork, func(w workers.Row) workerStatus { return newWorkerStatus(w, now) })
	if last != nil {
		report.LastWorker = new(newWorkerStatus(*last, now))
	}
	since, err := monitor.New(i.db).Unmonitored(cmd.Context())
	if err != nil {
		return err
	}
	report.Unmonitored, report.now = job.Time{Time: since}, now
	if a.json {
		return a.out.json(report)
	}
	if err := a.printStatus(cmd.Context(), i, report); err != nil {
		return err
	}
	if o.shards {
		if err := a.printShards(i, report.Queues); err != nil {
			return err
		}
	}
	if !since.IsZero() {
		a.out.line("%s", unmonitored(i, since))
	}
	return nil
}

// talliedMost is up to how many jobs of a status are counted in all queues.
const talliedMost = 10_000

// queueStatus reads what status says of a queue, and counts up to most jobs of a status; 0 counts all.
func (i *instance) queueStatus(ctx context.Context, q *queue.Queue, lastSeen time.Time, most int64) (queueStatus, error) {
	c, more, err := admin.Overview{}, map[admin.Status]bool(nil), error(nil)
	if most == 0 {
		c, err = admin.Of(q).Overview(ctx)
	} else {
		c, more, err = admin.Of(q).Sketch(ctx, most)
	}
	if err != nil {
		return queueStatus{}, err
	}
	s := queueStatus{
		Queue: q.Name, Counts: c.Counts, Shards: c.Division.Of, ByShard: byShard(q, c), Misplaced: c.Misplaced, more: more,
	}
	if otherwise := c.Division.Otherwise; otherwise != nil {
		s.DividedOtherwise = new(otherwise.Error())
	}
	progressing, err := admin.Of(q).Progressing(ctx, progressingMost)
	if err != nil {
		return s, err
	}
	s.Progressing = texts.Map(progressing, func(j *job.Job) progressingJob {
		return progressingJob{j.ID, j.Type, j.Attempt, j.Progress.JSON(), j.Progress.String()}
	})
	quarantined, err := admin.Of(q).Quarantined(ctx, progressingMost)
	if err != nil {
		return s, err
	}
	s.Quarantined = texts.Map(quarantined, func(j *job.Job) quarantinedJob { return quarantinedJob{j.ID, j.Type, j.Losses} })
	types, err := admin.Of(q).Unhandled(ctx, c.Paused, lastSeen, i.handled(q.Name))
	s.Unhandled = texts.Map(slices.Sorted(maps.Keys(types)), func(name string) unhandledType {
		return unhandledType{name, job.Time{Time: types[name]}}
	})
	return s, err
}

func (i *instance) handled(queue string) []string {
	c, err := i.Queue(queue)
	if err != nil {
		return nil // a queue of another config
	}
	return slices.AppendSeq([]string{}, maps.Keys(c.Handlers))
}

func newWorkerStatus(w workers.Row, now time.Time) workerStatus {
	s := workerStatus{
		ID: w.ID, Host: w.Host, PID: w.PID, State: w.State, StartTime: job.Time{Time: w.StartTime.Time}, Heartbeat: job.Time{Time: w.Heartbeat.Time},
		LockUntil: job.Time{Time: w.LockUntil.Time}, EndTime: job.Time{Time: w.EndTime.Time}, Slots: w.Slots,
	}
	switch dead, silent := w.Silent(now); {
	case silent && dead == 0:
		s.silence = "; its lock has expired: the next worker declares it dead"
	case silent:
		s.silence = fmt.Sprintf("; unless it comes back it is declared dead in %s", dead.Round(time.Second))
	}
	return s
}

func (a *app) printStatus(ctx context.Context, i *instance, r statusReport) error {
	t := newTable(a.out, "QUEUE", "DUE", "HELD", "SCHEDULED", "RETRYING", "LOCKED", "RUNNING", "WAITING", "ERROR", "FAILED", "FINISHED", "CLOSED", i.zoned("OLDEST DUE")).
		narrowing([]string{"QUEUE"}, []string{"CLOSED", "LOCKED", "FINISHED", "ERROR", "WAITING", "SCHEDULED", "HELD"})
	for _, q := range r.Queues {
		name := q.Queue
		if q.Paused {
			name += " (paused)"
		}
		n := func(status admin.Status, n int64) string {
			return number(n) + map[bool]string{true: "+"}[q.more[status]]
		}
		t.row(name, n(admin.Due, q.Due), n(admin.Held, q.Held), n(admin.Scheduled, q.Scheduled), n(admin.Retry, q.Retrying), n(admin.Locked, q.Locked),
			n(admin.Running, q.Running), n(admin.Waiting, q.Waiting), n(admin.Error, q.Error), n(admin.Failed, q.Failed), n(admin.Finished, q.Finished),
			n(admin.Closed, q.Closed), i.localCell(q.OldestDue.Time))
	}
	if err := t.end(); err != nil {
		return err
	}
	if slices.ContainsFunc(r.Queues, func(q queueStatus) bool { return q.Retrying > 0 }) {
		a.out.line("RETRYING counts jobs that are also in DUE, HELD or SCHEDULED")
	}
	for _, q := range r.Queues {
		for _, t := range q.Unhandled {
			// Quoted, so that a trailing blank is visible.
			a.out.line("%s: due since %s, but no worker handles type %q", q.Queue, i.local(t.OldestDue.Time), t.Type)
		}
		for _, j := range q.Progressing {
			a.out.line("%s: job %d (%s) has reached %s, %s", q.Queue, j.ID, j.Type, j.said, i.local(*j.ProgressTime))
		}
		for _, j := range q.Quarantined {
			a.out.line("%s: job %d (%s) is quarantined: %d attempts in a row ended with their workers", q.Queue, j.ID, j.Type, j.Losses)
		}
		if q.DividedOtherwise != nil {
			a.out.line("%s: hipq work with this config leaves it out: %s", q.Queue, *q.DividedOtherwise)
		}
		if q.Misplaced > 0 {
			a.out.line("%s: %s misplaced, for the next worker to move to one of its %s", q.Queue, texts.Count(q.Misplaced, "job"), texts.Count(q.Shards, "shard"))
		}
	}
	strays, err := doctor.Strays(ctx, i.db, i.Config)
	if err != nil {
		return err
	}
	for _, said := range strays {
		a.out.line("%s", said)
	}
	for _, q := range r.LeftOut {
		a.out.line("queue %s is left out: %s; %s", q.Queue, q.Error, q.remedy)
	}
	if r.LastWorker == nil {
		a.out.line("cron has started no worker yet: is hipq work in crontab?")
		return nil
	}
	a.printWorker(i, "last worker", *r.LastWorker)
	if silent := r.now.Sub(r.LastWorker.Heartbeat.Time); silent > admin.LongSilent {
		a.out.line("no worker has run for %s: is hipq work in crontab?", silent.Round(time.Second))
	}
	for _, w := range r.Workers {
		if w.ID != r.LastWorker.ID && (w.Slots > 0 || w.silence != "") {
			a.printWorker(i, "worker", w)
		}
	}
	return nil
}
