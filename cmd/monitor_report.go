package cmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/monitor/report"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// pageMode is the mode of the report's file. The report quotes errors, which not everyone may read.
const pageMode = 0o640

// failuresOfQueue limits the kinds of failures of each queue on the page.
const failuresOfQueue = 10

func (a *app) writePage(ctx context.Context, i *instance, r monitored, file string) (err error) {
	p := report.Page{Instance: i.Name, Zone: i.Location, Report: r.Report, Alert: i.Alert, Retrying: r.Retrying, Current: r.Current}
	if i.File != config.Everywhere {
		p.Config = texts.ShellWord(i.File)
	}
	if p.Made, err = i.db.SQL.Clock(ctx); err != nil {
		return err
	}
	if r.Health != nil { // the report is about now
		p.Health = new(i.health(r.state, i.shared))
		if err = i.reportNow(ctx, &p); err != nil {
			return err
		}
	}
	var page bytes.Buffer
	if err := p.Write(&page); err != nil {
		return err
	}
	if file == standardOutput {
		a.out.text("%s", page.String())
		return a.out.err
	}
	return i.replaceFile(file, page.Bytes(), pageMode)
}

func (i *instance) reportNow(ctx context.Context, p *report.Page) error {
	queues, err := i.queues(ctx)
	if err != nil {
		return err
	}
	p.Enqueue = i.firstJob()
	if p.Failures, err = i.reportedFailures(ctx, queues, admin.Failed); err != nil {
		return err
	}
	if p.Retries, err = i.reportedFailures(ctx, queues, admin.Retry); err != nil {
		return err
	}
	if err := i.reportWork(ctx, queues, p); err != nil {
		return err
	}
	all, now, err := i.allScheduled(ctx)
	if err != nil {
		return err
	}
	schedules := texts.Map(all, func(s scheduled) report.Schedule { return s.reported(i, now) })
	slices.SortStableFunc(schedules, func(a, b report.Schedule) int { return b.Urgency() - a.Urgency() })
	p.Schedules = report.ListOf(schedules, "schedule", i.shared("hipq schedules"))
	return nil
}

func (s scheduled) reported(i *instance, now time.Time) report.Schedule {
	of := report.Schedule{
		Name: s.Name, When: s.When, Queue: s.Queue, JobType: s.JobType, Next: s.NextSlot.Time, Last: s.LastSlot.Time, Overdue: s.overdue(),
		Remark: s.remark(i, now),
	}
	if s.missed {
		of.Missed, of.MissedLately = s.LeftSlot.Time, s.leftLately(now)
	}
	return of
}

// firstJob is a command that adds a job of the config's first type.
func (i *instance) firstJob() string {
	for _, q := range i.Queues {
		for _, name := range slices.Sorted(maps.Keys(q.Handlers)) {
			if name != job.AllTypes {
				return i.shared("hipq enqueue " + q.Name + " " + texts.ShellWord(name))
			}
		}
	}
	return ""
}

// reportedFailures returns the kinds of failures with the most jobs, or for retries those that come next.
func (i *instance) reportedFailures(ctx context.Context, queues []*queue.Queue, state admin.Status) (l report.List[report.Failure], err error) {
	var all []report.Failure
	others := int64(0)
	for _, q := range queues {
		found, err := admin.Of(q).Failures(ctx, admin.Filter{Status: state, Limit: failuresOfQueue})
		if err != nil {
			return l, err
		}
		for _, f := range found.Kinds {
			k := failureOf(q, admin.Filter{}, f)
			all = append(all, report.Failure{
				Queue: k.Queue, JobType: k.Type, Jobs: k.Jobs, First: f.First.Time, Last: f.Last.Time, NextRetry: f.NextRetry.Time, Error: f.Error,
				Show: i.shared(fmt.Sprintf("hipq show %s %d", k.Queue, k.Example)), Retry: i.shared(or0(k.Retry)), Dismiss: i.shared(or0(k.Dismiss)),
			})
		}
		others += found.Others
	}
	slices.SortStableFunc(all, func(a, b report.Failure) int {
		return cmp.Or(a.NextRetry.Compare(b.NextRetry), cmp.Compare(b.Jobs, a.Jobs))
	})
	l = report.ListOf(all, "job", i.shared("hipq failures --state "+string(state)))
	l.More = others
	for _, f := range all[len(l.First):] {
		l.More += f.Jobs
	}
	return l, nil
}

func (i *instance) reportWork(ctx context.Context, queues []*queue.Queue, p *report.Page) error {
	last, err := workers.New(i.db).Last(ctx)
	if err != nil {
		return err
	}
	if last != nil {
		p.LastStart = &report.Start{Host: last.Host, At: last.StartTime.Time}
	}
	atWork, err := workers.New(i.db).Hosts(ctx)
	if err != nil {
		return err
	}
	var hosts []report.Host
	at := map[string]int{} // index in hosts by worker
	for n, host := range atWork {
		h := report.Host{Name: host.Name, Since: host.Workers[0].StartTime.Time, Workers: len(host.Workers), Slots: int(host.Slots)}
		for _, w := range host.Workers {
			at[w.ID] = n
			if h.Heartbeat.Before(w.Heartbeat.Time) {
				h.Heartbeat = w.Heartbeat.Time
			}
			if _, silent := w.Silent(p.Made); silent {
				h.Silent++
			}
		}
		hosts = append(hosts, h)
	}
	var running []report.Running
	for _, q := range queues {
		jobs, err := admin.Of(q).Running(ctx)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			r := report.Running{Queue: q.Name, JobType: j.Type, ID: j.ID, Attempt: j.Attempt, Start: j.StartTime}
			if reached, ok := j.Reached(); ok {
				r.Progress = reached.String()
			}
			if n, ok := at[j.WorkerID]; ok {
				r.Host = hosts[n].Name
				hosts[n].Running++
			}
			running = append(running, r)
		}
	}
	slices.SortStableFunc(running, func(a, b report.Running) int { return a.Start.Compare(b.Start) })
	p.Running = report.ListOf(running, "job", i.shared("hipq jobs --state running"))
	p.Hosts = report.ListOf(hosts, "host", i.shared("hipq status"))
	return nil
}
