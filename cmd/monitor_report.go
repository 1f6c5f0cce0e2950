package cmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/monitor/sheet"
	"github.com/hipq/hipq/queue"
)

// sheetMode is that of a report's file: it quotes errors, which are not for everybody.
const sheetMode = 0o640

// The page has the newest kinds of failures of each queue, and of all queues those with the most jobs.
const (
	incidentsOfQueue = 10
	incidentsOfSheet = 20
)

// writeSheet writes the report on the hours up to this one as a page, in the place of that which is there. How jobs are now
// says nothing about a past hour.
func (i *instance) writeSheet(ctx context.Context, m *monitor.Monitor, hour time.Time, past bool, file string) error {
	s, err := i.sheet(ctx, m, hour)
	if err == nil && !past {
		s.Incidents, err = i.incidents(ctx)
	}
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := s.Write(&page); err != nil {
		return err
	}
	return replaceFile(file, page.Bytes(), sheetMode)
}

// sheet is what the page tells.
func (i *instance) sheet(ctx context.Context, m *monitor.Monitor, hour time.Time) (s sheet.Sheet, err error) {
	s = sheet.Sheet{Instance: i.Name, Zone: i.Location}
	if s.Made, err = i.db.Clock(ctx); err != nil {
		return s, err
	}
	if s.Report, err = m.Report(ctx, hour); err != nil {
		return s, err
	}
	s.Course, err = m.Course(ctx, hour)
	return s, err
}

// incidents are the failures that are still to be seen to.
func (i *instance) incidents(ctx context.Context) (all []sheet.Incident, err error) {
	queues, err := i.queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		found, err := q.Failures(ctx, queue.Filter{Limit: incidentsOfQueue})
		if err != nil {
			return nil, err
		}
		for _, f := range found.Kinds {
			k := failureOf(q, queue.Filter{}, f)
			all = append(all, sheet.Incident{
				Queue: k.Queue, JobType: k.Type, Jobs: k.Jobs, First: f.First, Last: f.Last, Error: f.Error,
				Show: fmt.Sprintf("hipq show %s %d", k.Queue, k.Example), Retry: k.Retry, Dismiss: *k.Dismiss,
			})
		}
	}
	slices.SortStableFunc(all, func(a, b sheet.Incident) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return all[:min(len(all), incidentsOfSheet)], nil
}
