package cmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hipq/hipq/monitor/report"
	"github.com/hipq/hipq/queue/admin"
)

// pageMode is that of a report's file: it quotes errors, which are not for everybody.
const pageMode = 0o640

// The page has the newest kinds of failures of each queue, and of all queues those with the most jobs.
const (
	failuresOfQueue = 10
	failuresOfPage  = 20
)

// writePage writes the report as a page, instead of that which is there, or prints it.
func (a *app) writePage(ctx context.Context, i *instance, r monitored, file string) (err error) {
	p := report.Page{Instance: i.Name, Zone: i.Location, Report: r.Report, Health: r.Health, Retrying: r.Retrying, Current: r.Current}
	if p.Made, err = i.db.SQL.Clock(ctx); err != nil {
		return err
	}
	if r.Health != nil { // of now
		if p.Failures, err = i.reportedFailures(ctx); err != nil {
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

func (i *instance) reportedFailures(ctx context.Context) (all []report.Failure, err error) {
	queues, err := i.queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		for _, state := range []admin.Status{admin.Failed, admin.Retry} {
			found, err := admin.Of(q).Failures(ctx, admin.Filter{Status: state, Limit: failuresOfQueue})
			if err != nil {
				return nil, err
			}
			for _, f := range found.Kinds {
				k := failureOf(q, admin.Filter{}, f)
				all = append(all, report.Failure{
					Queue: k.Queue, JobType: k.Type, Jobs: k.Jobs, First: f.First.Time, Last: f.Last.Time, NextRetry: f.NextRetry.Time, Error: f.Error,
					Show: fmt.Sprintf("hipq show %s %d", k.Queue, k.Example), Retry: or0(k.Retry), Dismiss: or0(k.Dismiss),
				})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b report.Failure) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return all[:min(len(all), failuresOfPage)], nil
}
