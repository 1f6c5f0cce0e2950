package monitor

import (
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

func (j *judgement) health(s State) Health {
	h := Health{Severity: OK, Findings: []Finding{}}
	if len(j.findings) == 0 {
		h.Text = "all is well: " + s.summary()
		return h
	}
	h.Findings = j.findings
	for _, f := range h.Findings {
		if f.Severity.Rank() > h.Severity.Rank() {
			h.Severity = f.Severity
		}
	}
	h.Text = h.Counts() + ": " + j.findings[0].Text + others(j.findings[1:])
	return h
}

// Counts is the number of findings in words: 2 critical, 1 warning.
func (h Health) Counts() string {
	var warnings int
	for _, f := range h.Findings {
		if f.Severity == Warning {
			warnings++
		}
	}
	critical := fmt.Sprintf("%d critical", len(h.Findings)-warnings)
	switch {
	case warnings == 0:
		return critical
	case warnings == len(h.Findings):
		return texts.Count(warnings, "warning")
	}
	return critical + ", " + texts.Count(warnings, "warning")
}

const othersMost = 3

func others(findings []Finding) string {
	if len(findings) == 0 {
		return ""
	}
	var names []string
	for _, f := range findings[:min(len(findings), othersMost)] {
		name := f.What
		if f.JobType != nil {
			name = *f.Queue + "/" + *f.JobType + " " + name
		} else if f.Queue != nil {
			name = *f.Queue + " " + name
		}
		names = append(names, name)
	}
	if len(findings) > othersMost {
		names = append(names, "…")
	}
	return fmt.Sprintf("; and %d more: %s", len(findings), strings.Join(names, ", "))
}

func (s State) summary() string {
	due, retrying, retried := int64(0), int64(0), ""
	for _, t := range s.Types {
		due, retrying = due+t.Backlog, retrying+t.Retrying
	}
	if retrying > 0 {
		atLeast := map[bool]string{true: "at least "}[s.MoreRetrying]
		retried = fmt.Sprintf(", %s%s will be retried", atLeast, texts.Count(retrying, "job"))
	}
	tick := "cron has started no worker yet"
	if !s.LastTick.IsZero() {
		tick = "the last sign of a worker is " + texts.Duration(s.silence()) + " old"
	}
	return fmt.Sprintf("%s, %s due%s", tick, areJobs(due, s.Most), retried)
}

// silence is how long ago a worker last gave a sign of life. If none ever did, it is how long a job has been due.
func (s State) silence() (d time.Duration) {
	if !s.LastTick.IsZero() {
		return max(0, s.At.Sub(s.LastTick))
	}
	for _, t := range s.Types {
		d = max(d, t.OldestDue)
	}
	return d
}
