package cmd

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
)

var (
	// unmailed are the findings that monitor never mails. hipq work has mailed them, or they concern past hours. --check
	// shows them.
	unmailed = []string{"left_out", "dead_workers", "wait_p95", "run_p95"}
	// unserved are the findings that follow if no worker runs, which is a finding itself.
	unserved = []string{"schedules", "oldest_due", "backlog", "shard_oldest_due"}
	// ofFailures are the findings that are no news if hipq work has mailed a failure of the job type.
	ofFailures = []string{"failed", "error_rate"}
)

// First words of notices: a mailed finding, a finding that follows from mailed failures, an end, mailed failures that
// last, and slots without a job.
const (
	findingNotice = "finding"
	knownNotice   = "known"
	endedNotice   = "ended"
	openNotice    = "open"
	missedNotice  = "missed"
)

// findingAgain is how often a lasting finding is mailed. endedAgain is how long a finding that ended stays quiet.
const findingAgain, endedAgain = 24 * time.Hour, time.Hour

// found is a finding as a notice stores it. config is a checksum, because other limits or schedules judge differently.
type found struct {
	config              string
	severity            monitor.Severity
	what, queue, ofType string
}

func (i *instance) found(f monitor.Finding) found {
	names := texts.Map(i.Schedules, func(s schedule.Schedule) string { return s.Name })
	config := crc32.ChecksumIEEE(fmt.Append(nil, i.Alert, names))
	return found{fmt.Sprintf("%08x", config), f.Severity, f.What, or0(f.Queue), or0(f.JobType)}
}

func (f found) notice(first string) string {
	words := []string{first, f.config, string(f.severity), f.what, f.queue, f.ofType}
	return strings.TrimRight(strings.Join(words, " "), " ")
}

// foundOf parses a notice. A notice of another version has no severity.
func foundOf(notice string) (f found) {
	words := append(strings.SplitN(notice, " ", 6), "", "")
	if len(words) >= 6 {
		f = found{words[1], monitor.Severity(words[2]), words[3], words[4], words[5]}
	}
	return f
}

// of returns the finding without its severity.
func (f found) of() found {
	f.severity = ""
	return f
}

// mailFindings mails each finding once, again if it gets worse or after a day, and its end. It reads the notices before
// the state, because another host may write more meanwhile.
func (a *app) mailFindings(ctx context.Context, i *instance) error {
	log := alert.NewLog(i.db)
	said, err := log.Under(ctx, findingNotice)
	if err != nil {
		return err
	}
	knew, err := log.Under(ctx, knownNotice)
	if err != nil {
		return err
	}
	open, err := log.Under(ctx, openNotice)
	if err != nil {
		return err
	}
	ended, err := log.Under(ctx, endedNotice)
	if err != nil {
		return err
	}
	state, err := i.state(ctx, i.Alert.Enough())
	if err != nil {
		return err
	}
	worst, findings := map[found]monitor.Severity{}, i.health(state, i.shared).Findings
	idle := slices.ContainsFunc(findings, func(f monitor.Finding) bool { return f.What == "no_tick_for" })
	for _, finding := range findings {
		f := i.found(finding)
		worst[f.of()] = f.severity
		notice := f.notice(findingNotice)
		_, was := said[notice]
		_, known := knew[f.notice(knownNotice)]
		lately := !was && state.At.Sub(ended[f.of().notice(endedNotice)]) < endedAgain
		silent := f.what == "no_tick_for" && fails(outageOf(i.Config, "work", nil)) // work has mailed why
		if slices.Contains(unmailed, f.what) || idle && slices.Contains(unserved, f.what) || lately || silent {
			continue
		}
		// a critical number of failed jobs is news
		told := !was && (f.what == "error_rate" || f.what == "failed" && f.severity == monitor.Warning) && hasOpen(open, f.queue, f.ofType)
		if known || told {
			notice = f.notice(knownNotice)
		}
		err := log.Once(ctx, notice, state.At, findingAgain, func() error {
			if told && !known {
				return nil
			}
			return a.tell(strings.ToUpper(string(f.severity))+": "+finding.Text, i.runAs())
		})
		if err != nil {
			return err
		}
	}
	for _, notice := range slices.Sorted(maps.Keys(said)) {
		f := foundOf(notice)
		severity, lasts := worst[f.of()]
		switch {
		case severity == f.severity, f.config != i.found(monitor.Finding{}).config, !lasts && !canEnd(state, f, idle):
			continue
		case lasts: // the severity changed
			if severity == monitor.Critical {
				continue
			}
			_, err = log.Over(ctx, notice)
		default:
			err = a.mailEnd(ctx, i, log, state.At, f, said)
			delete(said, notice)
		}
		if err != nil {
			return err
		}
	}
	for notice := range knew {
		if f := foundOf(notice); worst[f.of()] == "" && f.config == i.found(monitor.Finding{}).config {
			if _, err := log.Over(ctx, notice); err != nil {
				return err
			}
		}
	}
	if err := a.mailMended(ctx, i, log, state.At, open); err != nil {
		return err
	}
	return a.mailMissed(ctx, i, log, state.At)
}

// canEnd reports whether the state proves a finding's end. It does not if the queue can't be read or no worker runs.
func canEnd(s monitor.State, f found, idle bool) bool {
	switch {
	case f.queue != "" && !slices.Contains(s.Queues, f.queue):
		return false
	case idle:
		return !slices.Contains(unserved, f.what) && !slices.Contains(ofFailures, f.what)
	case f.what != "error_rate":
		return true
	}
	return slices.ContainsFunc(s.Types, func(t monitor.TypeState) bool {
		return t.Queue == f.queue && t.JobType == f.ofType && t.Last.Ended > 0
	})
}

// mailEnd mails the end of a finding, once if it was mailed both as a warning and as critical.
func (a *app) mailEnd(ctx context.Context, i *instance, log alert.Log, now time.Time, f found, said map[string]time.Time) error {
	of := ""
	if f.queue != "" {
		of = strings.TrimRight(f.queue+"/"+f.ofType, "/") + ": "
	}
	notice := f.notice(findingNotice)
	f.severity = map[monitor.Severity]monitor.Severity{monitor.Critical: monitor.Warning, monitor.Warning: monitor.Critical}[f.severity]
	text := fmt.Sprintf("%s%s; the trouble was mailed at %s", of, monitor.Over(f.what), i.local(said[notice]))
	if _, twice := said[f.notice(findingNotice)]; twice {
		text = "" // the other notice mails it
	}
	if err := a.tellOver(ctx, log, notice, said[notice], text); err != nil || text == "" {
		return err
	}
	return log.Note(ctx, []string{f.of().notice(endedNotice)}, now)
}

// tellOver deletes a notice and mails its end, unless another tick did. With an empty text it only deletes it.
func (a *app) tellOver(ctx context.Context, log alert.Log, notice string, noted time.Time, text string) error {
	ours, err := log.Over(ctx, notice)
	if err != nil || !ours || text == "" {
		return err
	}
	if err = a.tell("resolved: " + text); err != nil {
		err = errors.Join(err, log.Note(ctx, []string{notice}, noted))
	}
	return err
}

// hasOpen reports whether hipq work has mailed a lasting failure of a job type.
func hasOpen(open map[string]time.Time, queue, jobType string) bool {
	for name := range open {
		if w, of := openWay(name); of == queue && w.jobType == jobType {
			return true
		}
	}
	return false
}

// openWay parses the notice of a lasting failure.
func openWay(notice string) (w failedWay, queue string) {
	words := strings.SplitN(notice, " ", 5) // open failed QUEUE FINGERPRINT TYPE
	if len(words) < 5 {
		return w, ""
	}
	w = failedWay{words[4], words[3]}
	if w.jobType == job.None {
		w.jobType = ""
	}
	return w, words[2]
}

// mailMended mails the end of mailed failures: no such job is failed, waits for its retry, or runs its retry.
func (a *app) mailMended(ctx context.Context, i *instance, log alert.Log, now time.Time, open map[string]time.Time) error {
	queues, err := i.mailed()
	if err != nil {
		return err
	}
	ofQueue := map[string][]string{}
	for _, notice := range slices.Sorted(maps.Keys(open)) {
		_, name := openWay(notice)
		ofQueue[name] = append(ofQueue[name], notice)
	}
	var lasting, over []string
	for _, q := range queues {
		notices := ofQueue[q.Name]
		if len(notices) == 0 {
			continue
		}
		lasts, err := lastingWays(ctx, admin.Of(q))
		if err != nil {
			return err
		}
		for _, notice := range notices {
			w, _ := openWay(notice)
			if lasts(w) {
				lasting = append(lasting, notice)
				continue
			}
			ours, err := log.Over(ctx, notice)
			if err != nil {
				return err
			}
			if ours {
				over = append(over, notice)
			}
		}
	}
	if len(lasting) > 0 { // renew them, because purge deletes old notices
		err = log.Note(ctx, lasting, now)
	}
	if len(over) == 0 || err != nil {
		return err
	}
	if err = a.mailNoneLeft(ctx, i, log, over); err != nil {
		return errors.Join(err, log.Note(ctx, over, now))
	}
	return log.Note(ctx, texts.Map(over, func(notice string) string { // a failure after this is news
		w, name := openWay(notice)
		return w.ended(name)
	}), now)
}

// lastingWays returns a function that reports whether failures last. A running retry counts, because it may fail.
func lastingWays(ctx context.Context, q *admin.Queue) (lasts func(failedWay) bool, err error) {
	retried, err := q.InRetry(ctx)
	if err != nil {
		return nil, err
	}
	of := make([]admin.Failures, 2)
	for n, status := range []admin.Status{admin.Failed, admin.Retry} {
		if of[n], err = q.Failures(ctx, admin.Filter{Status: status}); err != nil {
			return nil, err
		}
	}
	return func(w failedWay) bool {
		return slices.Contains(retried, w.jobType) || slices.ContainsFunc(of, func(f admin.Failures) bool {
			return w.among(f) != nil || f.Others > 0 || f.More // some were not looked at
		})
	}, nil
}

// mailNoneLeft mails the end of failures: it names a few and counts the rest.
func (a *app) mailNoneLeft(ctx context.Context, i *instance, log alert.Log, notices []string) error {
	const most = 3
	var some []string
	for _, notice := range notices[:min(len(notices), most)] {
		w, queue := openWay(notice)
		told, err := log.Times(ctx, []string{w.notice(activity.Failed, queue), w.notice(activity.Error, queue)})
		if err != nil {
			return err
		}
		mailed := ""
		if len(told) > 0 {
			mailed = ", mailed at " + i.local(slices.MaxFunc(slices.Collect(maps.Values(told)), time.Time.Compare))
		}
		some = append(some, fmt.Sprintf("%s (fingerprint %s%s)", w.name(queue), w.fingerprint, mailed))
	}
	if more := len(notices) - most; more > 0 {
		some = append(some, fmt.Sprintf("and %d more", more))
	}
	return a.tell("resolved: the failures of " + strings.Join(some, ", ") + ": no such job is left, and none waits for its retry")
}

// mailMissed mails schedules with slots that got no job because no worker ran in time, each slot once.
func (a *app) mailMissed(ctx context.Context, i *instance, log alert.Log, now time.Time) error {
	rows, err := scheduler.New(i.db, i.Schedules).Own(ctx)
	rows = slices.DeleteFunc(rows, func(r scheduler.Row) bool { return !r.Missed() })
	if err != nil || len(rows) == 0 {
		return err
	}
	names := texts.Map(rows, func(r scheduler.Row) string {
		return fmt.Sprintf("%s %s %s", missedNotice, r.Name, r.LeftSlot.UTC().Format(time.RFC3339))
	})
	said, err := log.Times(ctx, names)
	for n, r := range rows {
		if err == nil { // renewed once a day, because purge deletes old notices
			err = log.Once(ctx, names[n], now, findingAgain, func() error {
				if !said[names[n]].IsZero() {
					return nil
				}
				return a.tell(fmt.Sprintf("schedule %s: %s", r.Name, r.LeftWhy), "look:  "+i.command("hipq schedules"), i.runAs())
			})
		}
	}
	return err
}
