package cmd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/monitor"
)

// TestPrometheus checks that promtool's linter accepts the output for any names of job types.
func TestPrometheus(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 6, 40, 500e6, time.UTC)
	p95 := int64(1500)
	r := monitored{state: monitor.State{At: at, LastTick: at.Add(-6 * time.Minute), Over: 2 * time.Hour}}
	window := monitor.Window{Name: "6h", Hours: 3, Of: 6}
	for _, name := range []string{"send", "a\"b\\c{}\n# HELP x", "\xff", "\xfe", "\x1b[31m", ""} {
		r.state.Types = append(r.state.Types, monitor.TypeState{Queue: "emails", JobType: name, Backlog: 7, Failed: 1})
		counts := monitor.Counts{Finished: 3, Wait: monitor.Times{P50MS: &p95, P95MS: &p95, P99MS: &p95}}
		window.Queues = append(window.Queues, monitor.QueueSums{
			Queue: "emails", JobTypes: []monitor.TypeSums{{JobType: name, Sums: monitor.Sums{Counts: counts}}},
		})
	}
	r.Hour, r.Windows = at.Truncate(time.Hour), []monitor.Window{window}
	r.Health = new(monitor.DefaultAlert().Judge(r.state))

	var text bytes.Buffer
	a := &app{out: &output{ctx: t.Context(), Writer: &text}}
	dbtest.OK(t, a.printMetrics("shop", r))
	problems, err := promlint.New(bytes.NewReader(text.Bytes())).Lint()
	dbtest.Ensure(t, err == nil && len(problems) == 0, "%v, %+v in\n%s", err, problems, text.String())
	for _, line := range []string{
		`hipq_monitor_last_success_timestamp_seconds{hipq="shop"} 1.7952556005e+09`,
		`hipq_last_tick_timestamp_seconds{hipq="shop"} 1.7952552405e+09`,
		`hipq_health{hipq="shop"} 1`,
		`hipq_health_finding{hipq="shop",job_type="",queue="",what="no_tick_for"} 1`,
		`hipq_health_finding{hipq="shop",job_type="send",queue="emails",what="failed"} 1`,
		`hipq_backlog_jobs{hipq="shop",job_type="send",queue="emails"} 7`,
		`hipq_backlog_jobs{hipq="shop",job_type="a\"b\\c{} # HELP x",queue="emails"} 7`,
		`hipq_window_coverage_ratio{hipq="shop",window="6h"} 0.5`,
		`hipq_window_wait_p95_seconds{hipq="shop",job_type="send",queue="emails",window="6h"} 1.5`,
	} {
		dbtest.Ensure(t, strings.Contains("\n"+text.String(), "\n"+line+"\n"), "no line %s in\n%s", line, text.String())
	}
}
