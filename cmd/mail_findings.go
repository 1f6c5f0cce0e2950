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
	// unmailed are the findings that monitor doesn't mail: hipq work has, or they are about past hours, which can't be changed.
	// --check has them.
	unmailed = []string{"left_out", "dead_workers", "wait_p95", "run_p95"}
	// unserved are those that follow where no worker runs, which is a finding itself.
	unserved = []string{"schedules", "oldest_due", "backlog", "shard_oldest_due"}
	// ofFailures are those that hipq work has told if it has named a failure of the job type.
	ofFailures = []string{"failed", "error_rate"}
)

// The first words of notices: what monitor has told, what follows from failures that hipq work has told, and what was over; those
// failures while they last; and slots without a job.
const (
	findingNotice = "finding"
	knownNotice   = "known"
	endedNotice   = "ended"
	openNotice    = "open"
	missedNotice  = "missed"
)

// findingAgain is after how long a finding that lasts is told again, endedAgain after how long one that was over.
const findingAgain, endedAgain = 24 * time.Hour, time.Hour

// found is a finding as its notice has it. Configs of other limits or schedules judge otherwise, and have notices of their own.
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

// foundOf is the finding of which a notice is; of another hipq's it has no severity.
func foundOf(notice string) (f found) {
	words := append(strings.SplitN(notice, " ", 6), "", "")
	if len(words) >= 6 {
		f = found{words[1], monitor.Severity(words[2]), words[3], words[4], words[5]}
	}
	return f
}

// of leaves out how bad it is.
func (f found) of() found {
	f.severity = ""
	return f
}

// mailFindings tells what is not well by the limits, of each thing once, again if it gets worse, or after a day while it lasts; and what
// is well again. What was said is read before the state, because another host may say more meanwhile.
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
		silent := f.what == "no_tick_for" && fails(outageOf(i.Config, "work", nil)) // work has told why
		if slices.Contains(unmailed, f.what) || idle && slices.Contains(unserved, f.what) || lately || silent {
			continue
		}
		// that many jobs have failed is news
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
		case lasts: // it is worse, or less bad
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

// canEnd says whether the state tells that a finding is over. It doesn't of a queue that can't be read, or where nothing runs.
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

// mailEnd tells that a finding is over, once where it was told as a warning and as critical.
func (a *app) mailEnd(ctx context.Context, i *instance, log alert.Log, now time.Time, f found, said map[string]time.Time) error {
	of := ""
	if f.queue != "" {
		of = strings.TrimRight(f.queue+"/"+f.ofType, "/") + ": "
	}
	notice := f.notice(findingNotice)
	f.severity = map[monitor.Severity]monitor.Severity{monitor.Critical: monitor.Warning, monitor.Warning: monitor.Critical}[f.severity]
	text := fmt.Sprintf("%s%s; the trouble was mailed at %s", of, monitor.Over(f.what), i.local(said[notice]))
	if _, twice := said[f.notice(findingNotice)]; twice {
		text = "" // with the other
	}
	if err := a.tellOver(ctx, log, notice, said[notice], text); err != nil || text == "" {
		return err
	}
	return log.Note(ctx, []string{f.of().notice(endedNotice)}, now)
}

// tellOver tells that something is over that was noted at a time, if no other has; with an empty text it only forgets it.
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

// hasOpen says whether hipq work has named a failure of a job type that is not resolved.
func hasOpen(open map[string]time.Time, queue, jobType string) bool {
	for name := range open {
		if w, of := openWay(name); of == queue && w.jobType == jobType {
			return true
		}
	}
	return false
}

// openWay is the way in which jobs of a queue failed of which a notice is.
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

// mailMended tells which failures that hipq work has told are over: no job has failed in that way, waits for its retry, or is in it.
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
	if len(lasting) > 0 { // purge deletes what is old
		err = log.Note(ctx, lasting, now)
	}
	if len(over) == 0 || err != nil {
		return err
	}
	if err = a.mailNoneLeft(ctx, i, log, over); err != nil {
		return errors.Join(err, log.Note(ctx, over, now))
	}
	return log.Note(ctx, texts.Map(over, func(notice string) string { // what fails so after that is news
		w, name := openWay(notice)
		return w.ended(name)
	}), now)
}

// lastingWays tells in which ways jobs of a queue have failed, or wait for their retry. One whose retry runs may fail again.
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
			return w.among(f) != nil || f.Others > 0 || f.More // there may be more than were looked at
		})
	}, nil
}

// mailNoneLeft tells which failures are over: a few of them, by their notices, and how many more.
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

// mailMissed tells which schedules have slots without a job, because no worker ran in time: of each time once.
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
		if err == nil { // what was told is noted once a day, because purge deletes what is old
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
