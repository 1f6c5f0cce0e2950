package cmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/monitor/report"
	"github.com/hipq/hipq/queue"
)

// pageMode is that of a report's file: it quotes errors, which are not for everybody.
const pageMode = 0o640

// The page has the newest kinds of failures of each queue, and of all queues those with the most jobs.
const (
	failuresOfQueue = 10
	failuresOfPage  = 20
)

// writePage writes the report on the hours up to this one as a page, in the place of that which is there, or prints it. How the
// instance is now says nothing about a past hour.
func (a *app) writePage(ctx context.Context, i *instance, m *monitor.Monitor, hour time.Time, past bool, file string) (err error) {
	p := report.Page{Instance: i.Name, Zone: i.Location}
	if p.Made, err = i.db.Clock(ctx); err != nil {
		return err
	}
	if p.Report, err = m.Report(ctx, hour); err != nil {
		return err
	}
	if !past {
		state, err := i.state(ctx, i.Alert.Enough())
		if err != nil {
			return err
		}
		p.Health = new(i.Alert.Judge(state))
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

// reportedFailures are the kinds of failures that the page has.
func (i *instance) reportedFailures(ctx context.Context) (all []report.Failure, err error) {
	queues, err := i.queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		found, err := q.Failures(ctx, queue.Filter{Limit: failuresOfQueue})
		if err != nil {
			return nil, err
		}
		for _, f := range found.Kinds {
			k := failureOf(q, queue.Filter{}, f)
			all = append(all, report.Failure{
				Queue: k.Queue, JobType: k.Type, Jobs: k.Jobs, First: f.First, Last: f.Last, Error: f.Error,
				Show: fmt.Sprintf("hipq show %s %d", k.Queue, k.Example), Retry: k.Retry, Dismiss: *k.Dismiss,
			})
		}
	}
	slices.SortStableFunc(all, func(a, b report.Failure) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return all[:min(len(all), failuresOfPage)], nil
}
