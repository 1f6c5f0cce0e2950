package cmd

import (
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
	g := gauges{prometheus.NewRegistry(), prometheus.Labels{"hipq": label(instance)}}
	s := r.state
	g.set("hipq_monitor_last_success_timestamp_seconds", "When hipq monitor wrote this.", seconds(s.At))
	g.set("hipq_monitor_reported_until_timestamp_seconds", "The end of the last hour of the windows.", seconds(r.Hour.Add(time.Hour)))
	g.set("hipq_health", "Whether all is within the limits of the config: 0 yes, 1 warning, 2 critical.", float64(r.Health.Severity.Rank()))
	finding := g.by("hipq_health_finding", "What is above its limit: 1 warning, 2 critical.", "what", "queue", "job_type")
	for _, f := range r.Health.Findings {
		finding.set(float64(f.Severity.Rank()), f.What, label(or0(f.Queue)), label(or0(f.JobType)))
	}
	if !s.LastTick.IsZero() {
		g.set("hipq_last_tick_timestamp_seconds", "The last sign of life of any worker.", seconds(s.LastTick))
	}
	g.set("hipq_dead_workers", "Workers that died in the last hours.", float64(s.DeadWorkers))
	g.set("hipq_monitor_missed", "How many hours of the last week were not aggregated.", float64(s.MissedHours))
	g.states(s.Types)
	retrying := g.by("hipq_retrying_jobs", "Jobs that have had an attempt and wait for the next one.", "queue", "job_type")
	for _, t := range r.Retrying {
		retrying.set(float64(t.Jobs), label(t.Queue), label(t.JobType))
	}
	g.shards(s.Divisions)
	g.windows(r.Windows)

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
}

type gauge struct{ *prometheus.GaugeVec }

func (g gauge) set(value float64, labels ...string) { g.WithLabelValues(labels...).Set(value) }

func (g gauges) set(name, help string, value float64) { g.by(name, help).set(value) }

func (g gauges) by(name, help string, labels ...string) gauge {
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: g.instance}, labels)
	g.MustRegister(vec)
	return gauge{vec}
}

func (g gauges) states(types []monitor.TypeState) {
	labels := []string{"queue", "job_type"}
	backlog := g.by("hipq_backlog_jobs", "Jobs that are due, or locked by a dead worker.", labels...)
	oldest := g.by("hipq_oldest_due_seconds", "How long the oldest due job has been due.", labels...)
	failed := g.by("hipq_failed_jobs", "Jobs that failed for good and were neither retried nor dismissed.", labels...)
	for _, t := range types {
		of := []string{label(t.Queue), label(t.JobType)}
		backlog.set(float64(t.Backlog), of...)
		oldest.set(t.OldestDue.Seconds(), of...)
		failed.set(float64(t.Failed), of...)
	}
}

func (g gauges) shards(divisions []monitor.Division) {
	labels := []string{"queue", "shard"}
	backlog := g.by("hipq_shard_backlog_jobs", "Jobs of the shard that are due, or locked by a dead worker.", labels...)
	oldest := g.by("hipq_shard_oldest_due_seconds", "How long the shard's oldest job that no full throttle group holds back has been due.", labels...)
	used := g.by("hipq_shard_throttle_used", "What counts against the queue's throttle limit in the shard.", labels...)
	part := g.by("hipq_shard_throttle_part", "What the shard holds of the queue's throttle limit.", labels...)
	for _, d := range divisions {
		for _, s := range d.Shards {
			of := []string{label(d.Queue), strconv.Itoa(s.Shard)}
			backlog.set(float64(s.Backlog), of...)
			oldest.set(s.OldestDue.Seconds(), of...)
			if d.ThrottleLimit > 0 {
				used.set(float64(s.ThrottleUsed), of...)
				part.set(float64(s.ThrottlePart), of...)
			}
		}
	}
}

func (g gauges) windows(windows []monitor.Window) {
	coverage := g.by("hipq_window_coverage_ratio", "The share of the window's hours that were aggregated.", "window")
	died := g.by("hipq_window_workers_died", "Workers that died in the window.", "window")
	sums := map[string]gauge{}
	set := func(name, help string, value float64, of []string) {
		if _, ok := sums[name]; !ok {
			sums[name] = g.by("hipq_window_"+name, help, "window", "queue", "job_type")
		}
		sums[name].set(value, of...)
	}
	for _, w := range windows {
		coverage.set(float64(w.Hours)/float64(w.Of), w.Name)
		died.set(float64(w.Workers.Died), w.Name)
		for _, q := range w.Queues {
			for _, t := range q.JobTypes {
				of := []string{w.Name, label(q.Queue), label(t.JobType)}
				set("added", "Jobs that were added in the window.", float64(t.Added), of)
				set("started", "Attempts that were started in the window.", float64(t.Started), of)
				set("finished", "Attempts that finished in the window.", float64(t.Finished), of)
				set("errors", "Attempts that failed in the window and are retried.", float64(t.Errors), of)
				set("failed", "Jobs that failed for good in the window.", float64(t.Failed), of)
				for _, times := range []struct {
					name, of string
					monitor.Times
				}{{"wait", "the time from due to start in the window.", t.Wait}, {"run", "the run time of attempts in the window.", t.Run}} {
					for _, p := range []struct {
						name, help string
						ms         *int64
					}{
						{"p50", "The median of ", times.P50MS},
						{"p95", "The 95th percentile of ", times.P95MS},
						{"p99", "The 99th percentile of ", times.P99MS},
					} {
						if p.ms != nil {
							set(times.name+"_"+p.name+"_seconds", p.help+times.of, float64(*p.ms)/1000, of)
						}
					}
				}
			}
		}
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// label makes a foreign text a visible, one-line value of a label.
func label(text string) string { return oneLine(strings.ToValidUTF8(text, "\uFFFD")) }
