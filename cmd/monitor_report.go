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
	"github.com/hipq/hipq/queue/admin"
)

// sheetMode is that of a report's file: it quotes errors, which are not for everybody.
const sheetMode = 0o640

// The page has the newest kinds of failures of each queue, and of all queues those with the most jobs.
const (
	incidentsOfQueue = 10
	incidentsOfSheet = 20
)

// longGap is how long no worker may start on a host before the page shows it, unless they mostly start further apart.
const longGap = 5 * time.Minute

// writeSheet writes the report on the hours up to this one as a page, in the place of that which is there, or prints it. How the
// instance is now says nothing about a past hour.
func (a *app) writeSheet(ctx context.Context, i *instance, m *monitor.Monitor, hour time.Time, past bool, file string) error {
	s, err := i.sheet(ctx, m, hour)
	if err == nil && !past {
		err = i.addPresent(ctx, &s)
	}
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := s.Write(&page); err != nil {
		return err
	}
	if file == standardOutput {
		a.out.text("%s", page.String())
		return a.out.err
	}
	return i.replaceFile(file, page.Bytes(), sheetMode)
}

// sheet is what the page tells of the hours.
func (i *instance) sheet(ctx context.Context, m *monitor.Monitor, hour time.Time) (s sheet.Sheet, err error) {
	s = sheet.Sheet{Instance: i.Name, Zone: i.Location}
	if s.Made, err = i.db.Clock(ctx); err != nil {
		return s, err
	}
	if s.Report, err = m.Report(ctx, hour); err != nil {
		return s, err
	}
	for _, t := range s.Report.Trends {
		s.Trends = append(s.Trends, t.Words(i.Location))
	}
	eachThrottle(s.Report.Gauges, func(queue string, used, limit int64) {
		s.Throttles = append(s.Throttles, sheet.Throttle{Queue: queue, Used: used, Limit: limit})
	})
	hours, err := m.HostHours(ctx, hour)
	s.Hosts = hosts(s.Report.Windows[len(s.Report.Windows)-1].Ticks.Hosts, hours)
	return s, err
}

// addPresent adds how the instance is now.
func (i *instance) addPresent(ctx context.Context, s *sheet.Sheet) error {
	state, err := i.state(ctx, i.Alert.Enough())
	if err != nil {
		return err
	}
	s.Judged = true
	for _, f := range i.Alert.Judge(state).Findings {
		s.Findings = append(s.Findings, sheet.Finding{Critical: f.Severity == monitor.Critical, Text: f.Text})
	}
	s.Incidents, err = i.incidents(ctx)
	return err
}

// hosts are those that ticked in the week, with their gaps: those between two ticks, and that which lasts up to the end.
func hosts(week []monitor.HostTicks, hours []monitor.HostHour) (list []sheet.Host) {
	for _, h := range week {
		if h.First == nil || h.Last == nil {
			continue
		}
		long := max(longGap, 3*h.Last.Sub(*h.First)/time.Duration(max(h.Count, 1)))
		shown := sheet.Host{Name: h.Host, Ticks: h.Count, Idle: h.Idle, First: *h.First}
		add := func(t monitor.TickSums) {
			if t.GapMS == nil {
				return
			}
			gap := sheet.Gap{From: *t.GapFrom, To: t.GapFrom.Add(time.Duration(*t.GapMS) * time.Millisecond)}
			if gap.To.Sub(gap.From) > long && !slices.Contains(shown.Gaps, gap) {
				shown.Gaps = append(shown.Gaps, gap)
			}
		}
		for _, hour := range hours {
			if hour.Host == h.Host {
				add(hour.TickSums)
			}
		}
		add(h.TickSums)
		list = append(list, shown)
	}
	return list
}

// incidents are the failures that are still to be seen to.
func (i *instance) incidents(ctx context.Context) (all []sheet.Incident, err error) {
	queues, err := i.queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		found, err := admin.Of(q).Failures(ctx, admin.Filter{Limit: incidentsOfQueue})
		if err != nil {
			return nil, err
		}
		for _, f := range found.Kinds {
			k := failureOf(q, admin.Filter{}, f)
			all = append(all, sheet.Incident{
				Queue: k.Queue, JobType: k.Type, Jobs: k.Jobs, First: f.First, Last: f.Last, Error: f.Error,
				Show: fmt.Sprintf("hipq show %s %d", k.Queue, k.Example), Retry: k.Retry, Dismiss: *k.Dismiss,
			})
		}
	}
	slices.SortStableFunc(all, func(a, b sheet.Incident) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return all[:min(len(all), incidentsOfSheet)], nil
}
