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
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// hasOpen says whether hipq work has mailed the failures of a finding, and they are still open. Refused rows may be of any type.
func hasOpen(open map[string]time.Time, f found) bool {
	for name := range open {
		if w, of := openWay(name); of == f.queue && (w.jobType == f.ofType || w.fingerprint == refusedRows && f.what == "failed") {
			return true
		}
	}
	return false
}

// openWay returns the kind of failure that an open notice is about, and its queue.
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

// mailMended tells which failures mailed by hipq work are over: no such job is failed, waits for its retry, or runs it. It waits
// until hipq work may mail them again, so that failures that come and go are mailed once an hour.
func (a *app) mailMended(ctx context.Context, i *instance, log alert.Log, now time.Time, open map[string]time.Time) error {
	queues, err := i.mailed()
	if err != nil {
		return err
	}
	var lasting, ended, over []string
	for _, q := range queues {
		notices := slices.DeleteFunc(slices.Sorted(maps.Keys(open)), func(notice string) bool {
			_, name := openWay(notice)
			return name != q.Name
		})
		if len(notices) == 0 {
			continue
		}
		lasts, err := lastingWays(ctx, admin.Of(q))
		if err != nil {
			return err
		}
		for _, notice := range notices {
			w, _ := openWay(notice)
			mailed, err := w.mailed(ctx, log, q.Name)
			if err != nil {
				return err
			}
			if lasts(w) || now.Sub(mailed).Abs() < mailedAgain {
				lasting = append(lasting, notice)
				continue
			}
			ended = append(ended, notice)
		}
	}
	for _, notice := range ended { // what is forgotten is told, also if the next can't be forgotten
		var ours bool
		if ours, err = log.Over(ctx, notice); err != nil {
			break
		}
		if ours {
			over = append(over, notice)
		}
	}
	if len(lasting) > 0 { // purge deletes what is old
		err = errors.Join(err, log.Note(ctx, lasting, now))
	}
	if len(over) == 0 {
		return err
	}
	if failed := a.mailNoneLeft(ctx, i, log, over); failed != nil {
		return errors.Join(err, failed, log.Note(ctx, over, now))
	}
	return err
}

// mailed is when these failures of a queue were last mailed; zero if that is no longer known.
func (w failedWay) mailed(ctx context.Context, log alert.Log, queue string) (last time.Time, err error) {
	told, err := log.Times(ctx, []string{w.notice(activity.Failed, queue), w.notice(activity.Error, queue)})
	for _, at := range told {
		if at.After(last) {
			last = at
		}
	}
	return last, err
}

// lastingWays returns whether jobs of a queue are failed in a way, or wait for their retry. A retry that runs may fail again.
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

// mailNoneLeft tells which failures are over: a few by their notices, and the number of the others.
func (a *app) mailNoneLeft(ctx context.Context, i *instance, log alert.Log, notices []string) error {
	const most = 3
	var some []string
	for _, notice := range notices[:min(len(notices), most)] {
		w, queue := openWay(notice)
		at, err := w.mailed(ctx, log, queue)
		if err != nil {
			return err
		}
		mailed := ""
		if !at.IsZero() {
			mailed = ", mailed at " + i.local(at)
		}
		kind := "fingerprint " + w.fingerprint
		if w.fingerprint == refusedRows {
			kind = "refused rows"
		}
		some = append(some, fmt.Sprintf("%s (%s%s)", w.name(queue), kind, mailed))
	}
	if more := len(notices) - most; more > 0 {
		some = append(some, fmt.Sprintf("and %d more", more))
	}
	return a.tell("resolved: the failures of " + strings.Join(some, ", ") + ": none is open, and no such job waits for an automatic retry")
}
