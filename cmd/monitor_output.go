package cmd

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

const (
	asTable      = "table"
	asJSON       = "json"
	asCSV        = "csv"
	asPrometheus = "prometheus"
)

var outputs = []string{asTable, asJSON, asCSV, asPrometheus}

type monitored struct {
	monitor.Report
	// Current is what has happened since the last complete hour; null with --at.
	Current *monitor.Current `json:"current"`
	// Retrying are the job types with jobs that wait for a retry now; null with --at.
	Retrying []monitor.Retrying `json:"retrying"`
	// Health is the state of the instance now; null with --at.
	Health *monitor.Health `json:"health"`
	state  monitor.State
	// taken reports whether this run aggregated the hour.
	taken bool
}

// format returns the output format; empty prints nothing.
func (a *app) format(cmd *cobra.Command, o monitorOptions) (string, error) {
	format := o.output
	switch {
	case cmd.Flags().Changed("timeout"):
		return "", usagef("--timeout is for --check")
	case a.json && format != "" && format != asJSON:
		return "", usagef("--json and --output %s: leave one of them out", format)
	case a.json:
		format = asJSON
	case format == asJSON:
		a.json = true // also for errors and notices
	case format == "" && o.to != standardOutput:
		return "", usagef("--to needs --output, or --json")
	case format == "" && a.out.isTerminal() && o.report != standardOutput:
		format = asTable
	}
	if o.report == standardOutput && format != "" && o.to == standardOutput {
		return "", usagef("--report - and --output %s: both would be printed; name a file for one of them", format)
	}
	if format == asPrometheus && o.at != "" {
		return "", usagef("--output prometheus describes the present; leave out --at")
	}
	return format, nil
}

func (a *app) printMonitored(i *instance, format, file string, r monitored) error {
	mode := fs.FileMode(0o640)
	if format == asPrometheus {
		mode = 0o644 // the collector is another user
	}
	return a.printTo(i, file, mode, func() error {
		switch format {
		case asJSON:
			return a.out.json(r)
		case asCSV:
			return a.printCSV(r.Report)
		case asPrometheus:
			return a.printMetrics(i.Name, r)
		}
		return a.printReport(i, r)
	})
}

// printTo writes what is printed to a file, unless that is standardOutput.
func (a *app) printTo(i *instance, file string, mode fs.FileMode, do func() error) error {
	if file == standardOutput {
		return do()
	}
	var text bytes.Buffer
	out := a.out
	a.out = &output{ctx: out.ctx, Writer: &text}
	err := do()
	if a.out = out; err != nil {
		return err
	}
	return i.replaceFile(file, text.Bytes(), mode)
}

// printCSV prints a line for each job type of each window, with the same counts as JSON.
func (a *app) printCSV(r monitor.Report) error {
	w := csv.NewWriter(a.out)
	header := []string{"window", "from", "to", "hours", "of", "queue", "job_type", "added", "started", "finished", "errors", "failed"}
	for _, what := range []string{"wait", "run"} {
		for _, column := range []string{"count", "sum_ms", "min_ms", "max_ms", "avg_ms", "p50_ms", "p95_ms", "p99_ms"} {
			header = append(header, what+"_"+column)
		}
	}
	_ = w.Write(header) // w.Error has the errors
	for _, window := range r.Windows {
		for _, q := range window.Queues {
			for _, t := range q.JobTypes {
				row := []any{window.Name, window.From.Format(time.RFC3339), window.To.Format(time.RFC3339), window.Hours, window.Of, q.Queue, csvCell(t.JobType)}
				row = append(row, t.Added, t.Started, t.Finished, t.Errors, t.Failed)
				for _, times := range []monitor.Times{t.Wait, t.Run} {
					row = append(row, times.Count, times.SumMS, times.MinMS, times.MaxMS, times.AvgMS)
					for _, p := range []*int64{times.P50MS, times.P95MS, times.P99MS} {
						if p == nil {
							row = append(row, "")
						} else {
							row = append(row, *p)
						}
					}
				}
				_ = w.Write(texts.Map(row, func(cell any) string { return fmt.Sprint(cell) }))
			}
		}
	}
	w.Flush()
	return w.Error()
}

// csvCell makes a foreign text safe: on one line, and quoted if a spreadsheet would run it as a formula.
func csvCell(text string) string {
	text = oneLine(text)
	if text != "" && strings.Contains("=+-@", text[:1]) {
		return "'" + text
	}
	return text
}
