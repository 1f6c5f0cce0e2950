package ui

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// reportPage has the metrics, and the parts of other pages that need attention.
type reportPage struct {
	metrics
	// Health is nil for a past hour; then the other parts are empty.
	Health            *monitor.Health
	Failures, Retries failuresPage
	Workers           workersPage
	Schedules         []Schedule
}

// kindsOfQueue is how many kinds of failures of each queue a report has.
const kindsOfQueue = 10

// WriteReport writes a report as a page that needs no server, no network and no script. Without a verdict it is about a past hour.
// Texts of jobs and errors are escaped, and cut if they are long.
func (i Instance) WriteReport(ctx context.Context, r monitor.Report, current *monitor.Current, health *monitor.Health, to io.Writer) error {
	v := &view{Server: &Server{Instance: i, Options: Options{ReadOnly: true}}, r: new(http.Request).WithContext(ctx), File: true}
	p := reportPage{metrics: metrics{Report: r, Current: current, alert: i.Alert, zone: i.Zone}, Health: health}
	var err error
	if v.Now, err = i.DB.SQL.Clock(ctx); err == nil && health != nil {
		err = v.fill(&p)
	}
	if err != nil {
		return err
	}
	p.Made, v.Data = v.Now, &p
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, "report", v); err != nil {
		return fmt.Errorf("make the report: %w", err)
	}
	_, err = io.WriteString(to, alone(texts.Visible(b.String())))
	return err
}

// fill reads what is about now.
func (v *view) fill(p *reportPage) error {
	ctx := v.r.Context()
	queues, err := v.Queues(ctx)
	if err != nil {
		return err
	}
	for state, page := range map[admin.Status]*failuresPage{admin.Failed: &p.Failures, admin.Retry: &p.Retries} {
		page.State, page.Counted = string(state), true
		var causes []admin.Cause
		for _, q := range queues {
			found, err := admin.Of(q).Failures(ctx, admin.Filter{Status: state, Limit: kindsOfQueue})
			if err != nil {
				return err
			}
			page.More, page.Jobs, page.Counted = page.More+found.Others, page.Jobs+found.Others, page.Counted && !found.More
			for _, f := range found.Kinds {
				page.Jobs += f.Jobs
				kinds := []admin.Kind{{Queue: q.Name, Failure: f}}
				causes = append(causes, admin.Cause{Error: f.Error, Jobs: f.Jobs, First: f.First, Last: f.Last, Hours: f.Hours, Kinds: kinds})
			}
		}
		slices.SortStableFunc(causes, func(a, b admin.Cause) int {
			return cmp.Or(a.Kinds[0].NextRetry.Compare(b.Kinds[0].NextRetry.Time), cmp.Compare(b.Jobs, a.Jobs))
		})
		page.have(causes)
	}
	if p.Workers, err = v.working(queues); err != nil {
		return err
	}
	p.Schedules, err = v.Schedules(ctx)
	urgency := func(s Schedule) int { return map[bool]int{true: 2}[s.Overdue] + map[bool]int{true: 1}[s.MissedLately] }
	slices.SortStableFunc(p.Schedules, func(a, b Schedule) int { return urgency(b) - urgency(a) })
	return err
}

// Idle reports whether no job ran for a week, as in a new instance.
func (p reportPage) Idle() bool {
	if p.Current == nil || p.Current.LeftOut || len(p.Workers.Jobs)+len(p.Failures.Causes) > 0 || len(p.Missing) > 0 {
		return false
	}
	started := p.Lately().Started
	if w := p.Window("1w"); w != nil {
		started += w.Total().Started
	}
	return started == 0
}

// runningListed is how many running jobs a report lists.
const runningListed = 20

// Running are the jobs that have run longest.
func (p reportPage) Running() []*job.Job {
	return p.Workers.Jobs[:min(len(p.Workers.Jobs), runningListed)]
}

// More is how many other jobs run.
func (p reportPage) More() int64 { return int64(len(p.Workers.Jobs) - len(p.Running())) }

// Now is how many jobs run; empty if there is nothing to say about now.
func (p reportPage) Now() string {
	if p.Health == nil || p.Idle() && !p.Measured {
		return ""
	}
	return texts.Thousands(len(p.Workers.Jobs))
}

// anchor finds links, and what a title says about where they lead. They don't nest.
var anchor = texts.Pattern(`(?s)<a([^>]*) href="([^"]*)"( title="[^"]*")?([^>]*)>(.*?)</a>`)

// alone is a page in which links to what it doesn't have are texts, and those to a part that it doesn't have go to the section of such
// parts.
func alone(page string) string {
	return anchor().ReplaceAllStringFunc(page, func(link string) string {
		parts := anchor().FindStringSubmatch(link)
		id, inside := strings.CutPrefix(parts[2], "#")
		section, _, _ := strings.Cut(id, "-")
		for _, to := range []string{id, section} {
			if inside && strings.Contains(page, ` id="`+to+`"`) {
				return "<a" + parts[1] + ` href="#` + to + `"` + parts[3] + parts[4] + ">" + parts[5] + "</a>"
			}
		}
		return "<span" + parts[1] + parts[4] + ">" + parts[5] + "</span>"
	})
}
