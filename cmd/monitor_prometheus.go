package cmd

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/hipq/hipq/monitor"
)

// printMetrics prints the metrics for Prometheus' textfile collector. All are gauges, because counts over a window
// may fall. They have no timestamps, because the collector refuses them.
func (a *app) printMetrics(instance string, r monitored) error {
	g := gauges{prometheus.NewRegistry(), prometheus.Labels{"hipq": label(instance)}, map[string]*prometheus.GaugeVec{}}
	s := r.state
	g.set("hipq_monitor_last_success_timestamp_seconds", "When hipq monitor wrote this.", seconds(s.At))
	g.set("hipq_monitor_reported_until_timestamp_seconds", "The end of the last hour of the windows.", seconds(r.Hour.Add(time.Hour)))
	g.set("hipq_health", "Whether all is within the limits of the config: 0 yes, 1 warning, 2 critical.", float64(r.Health.Severity.Rank()))
	for _, f := range r.Health.Findings {
		g.set("hipq_health_finding", "What is above its limit: 1 warning, 2 critical.", float64(f.Severity.Rank()),
			"what", f.What, "queue", or0(f.Queue), "job_type", or0(f.JobType))
	}
	if !s.LastTick.IsZero() {
		g.set("hipq_last_tick_timestamp_seconds", "The last sign of life of any worker.", seconds(s.LastTick))
	}
	g.set("hipq_dead_workers", "Workers that died in the last hours.", float64(s.DeadWorkers))
	g.set("hipq_monitor_missed", "How many hours of the last week were not aggregated.", float64(s.MissedHours))
	for _, t := range s.Types {
		of := []string{"queue", t.Queue, "job_type", t.JobType}
		g.set("hipq_backlog_jobs", "Jobs that are due, or locked by a dead worker.", float64(t.Backlog), of...)
		g.set("hipq_oldest_due_seconds", "How long the oldest due job has been due.", t.OldestDue.Seconds(), of...)
		g.set("hipq_failed_jobs", "Jobs that failed for good and were neither retried nor dismissed.", float64(t.Failed), of...)
	}
	for _, t := range r.Retrying {
		g.set("hipq_retrying_jobs", "Jobs that have had an attempt and wait for the next one.", float64(t.Jobs),
			"queue", t.Queue, "job_type", t.JobType)
	}
	for _, d := range s.Divisions {
		g.shards(d)
	}
	for _, w := range r.Windows {
		g.window(w)
	}
	families, err := g.Gather()
	for _, family := range families {
		if err == nil {
			_, err = expfmt.MetricFamilyToText(a.out, family)
		}
	}
	return err
}

type gauges struct {
	*prometheus.Registry
	instance prometheus.Labels
	known    map[string]*prometheus.GaugeVec
}

// set sets a gauge. labels are names and values in turn.
func (g gauges) set(name, help string, value float64, labels ...string) {
	var names, values []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, label(pair[1]))
	}
	if g.known[name] == nil {
		g.known[name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: g.instance}, names)
		g.MustRegister(g.known[name])
	}
	g.known[name].WithLabelValues(values...).Set(value)
}

func (g gauges) shards(d monitor.Division) {
	for _, s := range d.Shards {
		of := []string{"queue", d.Queue, "shard", strconv.Itoa(s.Shard)}
		g.set("hipq_shard_backlog_jobs", "Jobs of the shard that are due, or locked by a dead worker.", float64(s.Backlog), of...)
		g.set("hipq_shard_oldest_due_seconds", "How long the shard's oldest job that no full throttle group holds back has been due.",
			s.OldestDue.Seconds(), of...)
		if d.ThrottleLimit > 0 {
			g.set("hipq_shard_throttle_used", "What counts against the queue's throttle limit in the shard.", float64(s.ThrottleUsed), of...)
			g.set("hipq_shard_throttle_part", "What the shard holds of the queue's throttle limit.", float64(s.ThrottlePart), of...)
		}
	}
}

func (g gauges) window(w monitor.Window) {
	g.set("hipq_window_coverage_ratio", "The share of the window's hours that were aggregated.", float64(w.Hours)/float64(w.Of), "window", w.Name)
	g.set("hipq_window_workers_died", "Workers that died in the window.", float64(w.Workers.Died), "window", w.Name)
	for _, q := range w.Queues {
		for _, t := range q.JobTypes {
			set := func(name, help string, value float64) {
				g.set("hipq_window_"+name, help, value, "window", w.Name, "queue", q.Queue, "job_type", t.JobType)
			}
			set("added", "Jobs that were added in the window.", float64(t.Added))
			set("started", "Attempts that were started in the window.", float64(t.Started))
			set("finished", "Attempts that finished in the window.", float64(t.Finished))
			set("errors", "Attempts that failed in the window and are retried.", float64(t.Errors))
			set("failed", "Jobs that failed for good in the window.", float64(t.Failed))
			for _, p := range []struct {
				name, help string
				ms         *int64
			}{
				{"wait_p50", "The median of the time from due to start", t.Wait.P50MS},
				{"wait_p95", "The 95th percentile of the time from due to start", t.Wait.P95MS},
				{"wait_p99", "The 99th percentile of the time from due to start", t.Wait.P99MS},
				{"run_p50", "The median of the run time of attempts", t.Run.P50MS},
				{"run_p95", "The 95th percentile of the run time of attempts", t.Run.P95MS},
				{"run_p99", "The 99th percentile of the run time of attempts", t.Run.P99MS},
			} {
				if p.ms != nil {
					set(p.name+"_seconds", p.help+" in the window.", float64(*p.ms)/1000)
				}
			}
		}
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// label makes a foreign text a visible, one-line value of a label.
func label(text string) string { return oneLine(strings.ToValidUTF8(text, "\uFFFD")) }
