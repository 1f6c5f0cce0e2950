package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/schema"
)

// Severity is how bad a finding is.
type Severity string

// Severities, from the mildest.
const (
	OK       Severity = "ok"
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// Rank is 0, 1 or 2, as in the exit codes of monitoring plugins.
func (s Severity) Rank() int { return max(0, slices.Index([]Severity{OK, Warning, Critical}, s)) }

// Health is the verdict on an instance.
type Health struct {
	// Severity is the severity of the worst finding: "ok", "warning" or "critical".
	Severity Severity `json:"severity"`
	// Text is one sentence: all is well, or the first finding and the names of the others.
	Text string `json:"text"`
	// Findings are the problems, in the order in which to act: nothing runs ("no_tick_for"), then the worst first.
	Findings []Finding `json:"findings"`
}

// Finding is one problem.
type Finding struct {
	// Severity is "warning" or "critical".
	Severity Severity `json:"severity"`
	// Queue is nil if the finding isn't about a queue's jobs.
	Queue *string `json:"queue"`
	// JobType is nil if the finding isn't about one job type.
	JobType *string `json:"job_type"`
	// What is the key of the limit in the config's "alert", or one of: "left_out" (a queue can't be used), "schedules" (no
	// worker handles a slot), "shard_oldest_due", "misplaced" or "shard_parts" (a queue's shards), "high_ids" (a table's ids
	// may run out), "disk" (space for SQLite's file).
	What string `json:"what"`
	// Value is the measured value. It is above Limit.
	Value float64 `json:"value"`
	// Limit is in the same unit as Value.
	Limit float64 `json:"limit"`
	// Unit is "part" (of 1), "ms", "jobs", "workers", "hours", "queues", "tables" or "slots".
	Unit string `json:"unit"`
	// Text is a sentence for people about the finding and what to do. It contains names that users chose.
	Text string `json:"text"`
}

// urgency is the severity's rank. While nothing runs, that comes before all else.
func (f Finding) urgency() int {
	if f.What == "no_tick_for" {
		return Critical.Rank() + 1
	}
	return f.Severity.Rank()
}

// enoughAttempts is how many attempts an error rate needs, so that one unlucky job raises no alarm.
const enoughAttempts = 20

// Judge finds what exceeds the limits in a state.
func (a Alert) Judge(s State) Health {
	j := judgement{over: texts.Duration(s.Over), most: s.Most, zone: cmp.Or(s.Zone, time.UTC)}
	if j.hours = j.over; !s.Until.IsZero() {
		j.hours += " up to " + j.clock(s.Until)
	}
	j.instance(a, s)
	for _, t := range s.Types {
		j.jobs(a.Of(t.Queue, t.JobType), t)
	}
	for _, d := range s.Divisions {
		j.division(d)
	}
	for _, q := range s.LeftOut {
		j.find(Finding{
			Severity: Critical, Queue: &q.Queue, What: "left_out", Value: 1, Unit: "queues",
			Text: fmt.Sprintf("queue %s is left out: %s", q.Queue, q.Why),
		})
	}
	j.disk(s.Disk)
	j.schedules(s.Overdue)
	if n := len(s.HighIDs); n > 0 {
		what, remedy := schema.SayHighIDs(s.HighIDs)
		j.find(Finding{Severity: Warning, What: "high_ids", Value: float64(n), Unit: "tables", Text: what + "; " + remedy})
	}
	slices.SortStableFunc(j.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.urgency(), a.urgency()), cmp.Compare(kindOf(a.What), kindOf(b.What)),
			cmp.Compare(b.Value, a.Value))
	})
	return j.health(s)
}

type judgement struct {
	// over is the judged period in words. hours also has the end of the last aggregated hour.
	over, hours string
	most        int64
	zone        *time.Location
	findings    []Finding
}

func (j *judgement) clock(t time.Time) string { return t.In(j.zone).Format("15:04 MST") }

// Verdict returns the severity of a value, and the limit that it exceeds.
func (l Limits) Verdict(value float64) (Severity, float64) {
	switch {
	case value > l.Critical:
		return Critical, l.Critical
	case value > l.Warning:
		return Warning, l.Warning
	}
	return OK, l.Warning
}

func (j *judgement) find(f Finding) { j.findings = append(j.findings, f) }

func (j *judgement) instance(a Alert, s State) {
	limit := func(what string, l Limits, value float64, unit, text string) {
		if severity, limit := l.Verdict(value); severity != OK {
			j.find(finding(Finding{Severity: severity, What: what, Value: value, Limit: limit, Unit: unit, Text: text}))
		}
	}
	silence := s.silence()
	text := fmt.Sprintf("no sign of a worker for %s: is hipq work in crontab, and does it run?", texts.Duration(silence))
	if s.LastTick.IsZero() {
		text = fmt.Sprintf("cron has started no worker yet, and a job has been due for %s: is hipq work in crontab?", texts.Duration(silence))
	}
	limit("no_tick_for", a.NoTickFor, silence.Seconds(), "ms", text)
	limit("dead_workers", a.DeadWorkers, float64(s.DeadWorkers), "workers",
		fmt.Sprintf("%s died in the last %s: hipq activity --state error says which", texts.Count(s.DeadWorkers, "worker"), j.over))
	text = fmt.Sprintf("%s of the last week have no metrics: hipq monitor --missing aggregates them", texts.Count(s.MissedHours, "hour"))
	if s.GoneHours > 0 {
		text += fmt.Sprintf(", but not %d of them, whose activity was purged", s.GoneHours)
	}
	limit("missed_hours", a.MissedHours, float64(s.MissedHours), "hours", text)
}

// disk judges the space that is left for SQLite's file.
func (j *judgement) disk(v *Disk) {
	if v == nil || !v.Full() && !v.Scarce() {
		return
	}
	f := Finding{Severity: Warning, What: "disk", Unit: "part", Text: "the disk is nearly full: " + v.String() + "; make room, or hipq purge --older-than 3d"}
	if v.Full() {
		f.Severity, f.Text = Critical, "the disk is full: "+v.String()+"; free disk space outside the database, then hipq purge --older-than 3d"
	}
	f.Value, f.Limit = v.Used()
	j.find(f)
}

// schedules judges all overdue schedules as one finding, because a worker that handles one slot handles all.
func (j *judgement) schedules(overdue []Overdue) {
	if len(overdue) == 0 {
		return
	}
	worst := slices.MaxFunc(overdue, func(a, b Overdue) int { return cmp.Compare(a.For, b.For) })
	j.find(finding(Finding{
		Severity: Warning, What: "schedules", Value: worst.For.Seconds(), Limit: worst.Within.Seconds(), Unit: "ms",
		Text: fmt.Sprintf("no worker handles the due slots of %s, those of %s for %s: see hipq schedules; does hipq work run with this config?",
			texts.Count(len(overdue), "schedule"), worst.Schedule, texts.Duration(worst.For)),
	}))
}

func (j *judgement) jobs(a JobAlert, t TypeState) {
	who := t.Queue + "/" + cmp.Or(t.JobType, "''")
	limit := func(what string, l Limits, value float64, unit, format string, args ...any) {
		severity, limit := l.Verdict(value)
		if severity == OK {
			return
		}
		text := who + ": " + fmt.Sprintf(format, args...)
		if t.Paused && (what == "oldest_due" || what == "backlog") { // paused on purpose, but perhaps forgotten
			severity, limit = Warning, l.Warning
			if l.Warning == Off {
				limit = l.Critical
			}
			text += "; the queue is paused: hipq queues resume " + t.Queue
		}
		j.find(finding(Finding{
			Severity: severity, Queue: &t.Queue, JobType: &t.JobType, What: what, Value: value, Limit: limit, Unit: unit, Text: text,
		}))
	}
	c, rate, said := t.Counts, 0.0, ""
	if ended := c.Attempts(); ended >= enoughAttempts {
		rate = c.ErrorRate()
		said = fmt.Sprintf("%s of %d attempts in %s ended with an error: %s", percent(rate), ended, j.hours, t.showErrors(c.Failed > c.Errors))
	}
	if last := t.Last; last.enough() && last.ErrorRate() > rate {
		rate = last.ErrorRate()
		said = fmt.Sprintf("%s of the last %d attempts, since %s, ended with an error: %s",
			percent(rate), last.Ended, j.clock(last.Since.Time), t.showErrors(2*last.failed > last.Bad))
		if t.Failed+t.Retrying == 0 {
			said += "; this clears when attempts succeed, or an hour after the last error"
		}
	}
	for _, l := range []*float64{&a.ErrorRate.Warning, &a.ErrorRate.Critical} {
		if t.Last.recovered(rate, *l) {
			*l = Off
		}
	}
	limit("error_rate", a.ErrorRate, rate, "part", "%s", said)
	verb := "are"
	if t.Failed == 1 {
		verb = "is"
	}
	limit("failed", a.Failed, float64(t.Failed), "jobs", "%s failed for good and %s still open; see: hipq failures %s",
		ofJobs(t.Failed, j.most), verb, t.Queue)
	limit("oldest_due", a.OldestDue, t.OldestDue.Seconds(), "ms", "a job has been due for %s: hipq jobs %s --state due lists it, hipq why %[2]s ID says why",
		texts.Duration(t.OldestDue), t.Queue)
	if c.Wait.P95MS != nil {
		limit("wait_p95", a.WaitP95, millis(*c.Wait.P95MS).Seconds(), "ms", "of 100 jobs that started in %s, 5 had waited for %s or more",
			j.hours, texts.Duration(millis(*c.Wait.P95MS)))
	}
	if c.Run.P95MS != nil {
		limit("run_p95", a.RunP95, millis(*c.Run.P95MS).Seconds(), "ms", "of 100 attempts in %s, 5 took %s or more",
			j.hours, texts.Duration(millis(*c.Run.P95MS)))
	}
	limit("backlog", a.Backlog, float64(t.Backlog), "jobs", "%s due", areJobs(t.Backlog, j.most))
}

// showErrors is the command that shows a type's errors: the open jobs, else the log.
func (t TypeState) showErrors(forGood bool) string {
	if t.Failed+t.Retrying > 0 {
		return "hipq failures " + t.Queue
	}
	command := "hipq activity --queue " + t.Queue
	if t.JobType != "" {
		command += " --type " + texts.ShellWord(t.JobType)
	}
	if forGood {
		return command + " --state failed"
	}
	return command + " --state error"
}

// finding puts the limit into the text, and converts seconds to milliseconds.
func finding(f Finding) Finding {
	limit := strconv.FormatFloat(f.Limit, 'f', -1, 64)
	if whole := int64(f.Limit); float64(whole) == f.Limit {
		limit = texts.Thousands(whole)
	}
	switch f.Unit {
	case "ms":
		limit = texts.Duration(time.Duration(f.Limit * float64(time.Second)))
		f.Value, f.Limit = 1000*f.Value, 1000*f.Limit
	case "part":
		limit = percent(f.Limit)
	}
	f.Text += fmt.Sprintf(" (%s above %s)", f.Severity, limit)
	return f
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func percent(part float64) string { return strconv.FormatFloat(100*part, 'g', 3, 64) + " %" }

// ofJobs is a number of jobs in words; a count above most is a lower bound.
func ofJobs(n, most int64) string {
	if most > 0 && n > most {
		return "more than " + texts.Count(most, "job")
	}
	return texts.Count(n, "job")
}

func areJobs(n, most int64) string {
	if n == 1 {
		return "1 job is"
	}
	return ofJobs(n, most) + " are"
}
