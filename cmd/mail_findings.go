package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// findingAgain is after how long a finding that lasts is told again.
const findingAgain = 24 * time.Hour

var (
	// unmailed are the findings that monitor doesn't mail: hipq work has, or they are about past hours, which can't be changed.
	// --check has them.
	unmailed = []string{"left_out", "dead_workers", "wait_p95", "run_p95"}
	// unserved are those that follow where no worker runs, which is a finding itself.
	unserved = []string{"schedules", "oldest_due", "backlog", "shard_oldest_due"}
	// ofFailures are those that hipq work has told if it has named a failure of the job type.
	ofFailures = []string{"failed", "error_rate"}
)

// The first words of notices: what monitor has told, what hipq work has told of failures that last, and slots without a job.
const (
	findingNotice = "finding"
	knownNotice   = findingNotice + " known"
	openNotice    = "open"
	missedNotice  = "missed"
)

// mailFindings tells what is not well by the limits, of each thing once, and again after a day while it lasts; and what is well again.
func (a *app) mailFindings(ctx context.Context, i *instance) error {
	state, err := i.state(ctx, i.Alert.Enough())
	if err != nil {
		return err
	}
	log := alert.NewLog(i.db)
	said, err := log.Under(ctx, findingNotice)
	if err != nil {
		return err
	}
	open, err := log.Under(ctx, openNotice)
	if err != nil {
		return err
	}
	current, findings := map[string]bool{}, i.Alert.Judge(state).Findings
	idle := slices.ContainsFunc(findings, func(f monitor.Finding) bool { return f.What == "no_tick_for" })
	for _, f := range findings {
		of := strings.TrimRight(strings.Join([]string{f.What, or0(f.Queue), or0(f.JobType)}, " "), " ")
		name, known := findingNotice+" "+of, knownNotice+" "+of
		current[name], current[known] = true, true
		if slices.Contains(unmailed, f.What) || idle && slices.Contains(unserved, f.What) {
			continue
		}
		_, was := said[known]
		if _, told := said[name]; was || !told && slices.Contains(ofFailures, f.What) && hasOpen(open, *f.Queue, *f.JobType) {
			name = known
		}
		err := log.Once(ctx, name, state.At, findingAgain, func() error {
			if name == known && !was { // hipq work has just told it
				return nil
			}
			return a.tell(strings.ToUpper(string(f.Severity))+": "+f.Text, i.runAs())
		})
		if err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if current[name] {
			continue
		}
		text, words := "", strings.SplitN(name, " ", 4)
		if words[1] != "known" {
			of := strings.Join(words[2:], "/")
			if of != "" {
				of += ": "
			}
			text = fmt.Sprintf("%s%s; the trouble was mailed at %s", of, monitor.Over(words[1]), i.local(said[name]))
		}
		if err := a.tellOver(ctx, log, name, said[name], text); err != nil {
			return err
		}
	}
	if err := a.mailMended(ctx, i, log, state.At, open); err != nil {
		return err
	}
	return a.mailMissed(ctx, i, log, state.At)
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

// mailMended tells which failures that hipq work has told are over: no job has failed in that way, or waits for its retry.
func (a *app) mailMended(ctx context.Context, i *instance, log alert.Log, now time.Time, open map[string]time.Time) error {
	queues, err := i.mailed()
	if err != nil {
		return err
	}
	var over []string
	for _, notice := range slices.Sorted(maps.Keys(open)) {
		w, name := openWay(notice)
		at := slices.IndexFunc(queues, func(q *queue.Queue) bool { return q.Name == name })
		if at < 0 {
			continue
		}
		lasts, ours := false, false
		for _, status := range []admin.Status{admin.Failed, admin.Retry} {
			if err == nil && !lasts {
				lasts, err = admin.Of(queues[at]).Any(ctx, admin.Filter{Status: status, Type: w.jobType, Fingerprint: w.fingerprint})
			}
		}
		switch {
		case err != nil:
		case lasts: // purge deletes what is old
			err = log.Note(ctx, []string{notice}, now)
		default:
			if ours, err = log.Over(ctx, notice); ours {
				over = append(over, notice)
			}
		}
		if err != nil {
			break
		}
	}
	if len(over) == 0 {
		return err
	}
	if failed := a.mailNoneLeft(ctx, i, log, over); failed != nil {
		err = errors.Join(err, failed, log.Note(ctx, over, now))
	}
	return err
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
