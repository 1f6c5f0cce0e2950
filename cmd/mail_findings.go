package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/admin"
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
			if name != known || was { // else hipq work has just told it
				a.say(strings.ToUpper(string(f.Severity))+": "+f.Text, i.runAs())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if current[name] {
			continue
		}
		ours, err := log.Over(ctx, name)
		if err != nil {
			return err
		}
		if words := strings.SplitN(name, " ", 4); ours && !strings.HasPrefix(name, knownNotice+" ") {
			of := strings.Join(words[2:], "/")
			if of != "" {
				of += ": "
			}
			a.say(fmt.Sprintf("resolved: %s%s; the trouble was mailed at %s", of, monitor.Over(words[1]), i.local(said[name])))
		}
	}
	if err := a.mailMended(ctx, i, log, state.At, open); err != nil {
		return err
	}
	return a.mailMissed(ctx, i, log, state.At)
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
	return failedWay{words[4], words[3]}, words[2]
}

// mailMended tells which failures that hipq work has told are over: no job has failed in that way, or waits for its retry.
func (a *app) mailMended(ctx context.Context, i *instance, log alert.Log, now time.Time, open map[string]time.Time) error {
	queues, err := i.mailed()
	if err != nil {
		return err
	}
	for _, notice := range slices.Sorted(maps.Keys(open)) {
		w, name := openWay(notice)
		for _, q := range queues {
			if q.Name != name {
				continue
			}
			lasts := false
			for _, status := range []admin.Status{admin.Failed, admin.Retry} {
				if lasts {
					break
				}
				if lasts, err = admin.Of(q).Any(ctx, admin.Filter{Status: status, Type: w.jobType, Fingerprint: w.fingerprint}); err != nil {
					return err
				}
			}
			if lasts { // purge deletes what is old
				err = log.Note(ctx, []string{notice}, now)
			} else {
				var ours bool
				if ours, err = log.Over(ctx, notice); ours {
					err = a.mailNoneLeft(ctx, i, log, w, name)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *app) mailNoneLeft(ctx context.Context, i *instance, log alert.Log, w failedWay, queue string) error {
	told, err := log.Times(ctx, []string{w.notice(queue)})
	mailed := ""
	if at := told[w.notice(queue)]; !at.IsZero() {
		mailed = " that were mailed at " + i.local(at)
	}
	a.say(fmt.Sprintf("resolved: the failures of %s/%s%s (fingerprint %s): no such job is left, and none waits for its retry",
		queue, texts.ShellWord(w.jobType), mailed, w.fingerprint))
	return err
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
				if said[names[n]].IsZero() {
					a.say(fmt.Sprintf("schedule %s: the slot of %s has no job: %s", r.Name, i.local(r.LeftSlot.Time), r.LeftWhy), "look: "+i.command("hipq schedules"), i.runAs())
				}
				return nil
			})
		}
	}
	return err
}
