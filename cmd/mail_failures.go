package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

const (
	// lately is how far before its start a tick looks for failures that no tick has mailed: a few crontab intervals.
	lately = 5 * time.Minute
	// lookedAgain is the overlap with the last look, because entries appear only at their commit.
	lookedAgain = 30 * time.Second
	// lookedLong is the duration from which a look is noted for other ticks. lookedWithin limits a look.
	lookedLong, lookedWithin = 100 * time.Millisecond, 5 * time.Second
	// mailedMost limits the new kinds of a queue that a tick mails. kindsMost limits those that it collects. mailedWhole
	// limits those mailed in full. mailedAmong is how many of a queue's newest jobs it counts.
	mailedMost, kindsMost, mailedWhole, mailedAmong = 50, 1000, 10, 100_000
)

type failedWay struct{ jobType, fingerprint string }

// notice names the notice for jobs of a queue that failed for good in this way, or by another state, for their attempts.
func (w failedWay) notice(state activity.State, queue string) string {
	return fmt.Sprintf("%s %s %s %s", state, queue, w.fingerprint, cmp.Or(w.jobType, job.None))
}

// name is the queue and the job type for people.
func (w failedWay) name(queue string) string { return queue + "/" + texts.ShellWord(w.jobType) }

// mailFailures mails attempts that failed since a time: each kind once an hour, and at once if a job then fails for
// good. A look that took long is noted, and the next look, on any host, continues from there.
func (a *app) mailFailures(ctx context.Context, i *instance, now, since time.Time) error {
	queues, err := i.mailed()
	if err != nil || len(queues) == 0 {
		return err
	}
	board := alert.NewLog(i.db)
	since, noted, err := lookSince(ctx, board, queues, now, since)
	if err != nil {
		return err
	}
	began := time.Now()
	newest, back, err := i.failedSince(ctx, queues, since)
	if err != nil {
		return err
	}
	took := time.Since(began)
	told := 0
	for _, q := range queues {
		ways, err := untold(ctx, board, q, newest[q.Name], now)
		whole := ways[:min(len(ways), max(mailedWhole-told, 0))]
		if told += len(ways); err == nil && len(whole) > 0 {
			err = board.Note(ctx, texts.Map(whole, func(w failedWay) string { return openNotice + " " + w.notice(activity.Failed, q.Name) }), now)
			if err == nil {
				err = a.mailQueue(ctx, i, q, whole, newest[q.Name])
			}
			if err == nil {
				err = board.Note(ctx, texts.Map(ways, func(w failedWay) string { return w.notice(newest[q.Name][w].State, q.Name) }), now)
			}
		}
		if err != nil {
			for _, w := range ways { // leave them to the next tick
				_, failed := board.Over(ctx, w.notice(newest[q.Name][w].State, q.Name))
				err = errors.Join(err, failed)
			}
			return err
		}
	}
	switch {
	case !back.IsZero():
		a.say(fmt.Sprintf("there is too much activity: this covers only failures since %s; see: %s", i.local(back), i.command("hipq failures --since 1h")))
	case told > mailedWhole:
		a.say("jobs failed in other ways too; see: " + i.command("hipq failures --since 1h"))
	}
	if took >= lookedLong {
		return board.Note(ctx, noted, now)
	}
	return nil
}

// lookSince returns the time from which to look for failures: since, or if later, shortly before the last look at all
// queues. noted are the notices of looks.
func lookSince(ctx context.Context, board alert.Log, queues []*queue.Queue, now, since time.Time) (_ time.Time, noted []string, err error) {
	noted = texts.Map(queues, func(q *queue.Queue) string { return "looked for failed jobs of " + q.Name })
	times, err := board.Times(ctx, noted)
	looked := now
	for _, n := range noted {
		if t := times[n]; t.Before(looked) {
			looked = t
		}
	}
	if looked = looked.Add(-lookedAgain); looked.After(since) && len(times) > 0 {
		since = looked
	}
	return since, noted, err
}

// failedSince returns the ways in which attempts failed since a time. Each has its newest entry, preferably of a job
// that failed for good. back is how far it looked if not to the beginning. It skips attempts that lost their worker,
// unless the job failed: they say nothing about a handler.
func (i *instance) failedSince(ctx context.Context, queues []*queue.Queue, since time.Time) (newest map[string]map[failedWay]activity.Entry, back time.Time, err error) {
	newest = map[string]map[failedWay]activity.Entry{}
	for _, q := range queues {
		newest[q.Name] = map[failedWay]activity.Entry{}
	}
	back, err = activity.New(i.db).Failed(ctx, since, lookedWithin, func(e activity.Entry) {
		of := newest[e.Queue]
		if of == nil || e.Error == job.Cancelled || e.OfWorker() { // the operator who cancelled a job knows
			return
		}
		w := failedWay{e.JobType, texts.Fingerprint(e.Cause())}
		if w.jobType == job.None { // an invalid row has no type
			w.jobType = ""
		}
		if was, ok := of[w]; !ok && len(of) < kindsMost || ok && was.State == activity.Error && e.State == activity.Failed {
			of[w] = e
		}
	})
	return newest, back, err
}

// untold claims the kinds of failure of a queue that no tick has mailed for an hour, latest first. Failed attempts are
// no news if a job that failed for good in the same way was mailed.
func untold(ctx context.Context, board alert.Log, q *queue.Queue, newest map[failedWay]activity.Entry, now time.Time) (ours []failedWay, err error) {
	if len(newest) == 0 {
		return nil, nil
	}
	ways := slices.SortedFunc(maps.Keys(newest), func(a, b failedWay) int { return cmp.Compare(newest[b].ID, newest[a].ID) })
	said := texts.Map(ways, func(w failedWay) string { return w.notice(newest[w].State, q.Name) })
	forGood := texts.Map(ways, func(w failedWay) string { return w.notice(activity.Failed, q.Name) })
	left, err := board.Unsaid(ctx, slices.Concat(said, forGood), now, mailedAgain)
	if err != nil {
		return nil, err
	}
	for n, w := range ways {
		if len(ours) == mailedMost {
			break
		}
		if !slices.Contains(left, said[n]) || !slices.Contains(left, forGood[n]) {
			continue
		}
		claimed, err := board.Claim(ctx, said[n], now, mailedAgain)
		if err != nil {
			return ours, err
		}
		if claimed {
			ours = append(ours, w)
		}
	}
	return ours, nil
}

// mailQueue mails these ways in which attempts of a queue failed: what, since when, how often, and what to do.
func (a *app) mailQueue(ctx context.Context, i *instance, q *queue.Queue, ways []failedWay, newest map[failedWay]activity.Entry) error {
	found, err := admin.Of(q).Failures(ctx, admin.Filter{Status: admin.Failed, Among: mailedAmong})
	if err != nil {
		return err
	}
	var retried admin.Failures
	if slices.ContainsFunc(ways, func(w failedWay) bool { return newest[w].State == activity.Error }) {
		if retried, err = admin.Of(q).Failures(ctx, admin.Filter{Status: admin.Retry, Among: mailedAmong}); err != nil {
			return err
		}
	}
	for _, w := range ways {
		e, of := newest[w], w.name(q.Name)
		switch forGood, again := w.among(found), w.among(retried); {
		case again != nil && e.State == activity.Error:
			err = a.tell(fmt.Sprintf("%s of %s failed an attempt, since %s: %s; %s", texts.Count(again.Jobs, "job"), of, i.local(again.First.Time),
				e.Error, retryAt(i, *again)), "look:  "+i.command(failureOf(q, admin.Filter{}, *again).show), i.runAs())
		case forGood != nil:
			k := failureOf(q, admin.Filter{Status: admin.Failed}, *forGood)
			remedy := "close: " + i.command(*k.Dismiss)
			if k.Retry != nil {
				remedy = "retry: " + i.command(*k.Retry) + "   # after fixing the cause"
			}
			have := "have"
			if k.Jobs == 1 {
				have = "has"
			}
			err = a.tell(fmt.Sprintf("%s of %s %s failed for good since %s: %s", texts.Count(k.Jobs, "job"), of, have, i.local(k.First.Time), dash(e.Error)),
				"look:  "+i.command(k.show), remedy, i.runAs())
		default: // the job was discarded, dismissed or retried meanwhile
			failed, command := "an attempt", "hipq activity --queue "+q.Name
			if e.State == activity.Failed {
				failed = "for good"
			}
			if w.jobType != "" {
				command += " --type " + texts.ShellWord(w.jobType)
			}
			err = a.tell(fmt.Sprintf("a job of %s failed %s at %s: %s", of, failed, i.local(e.At), e.Error),
				"look:  "+i.command(fmt.Sprintf("%s --state %s", command, e.State)), i.runAs())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// among returns the failures of this way; nil if there are none.
func (w failedWay) among(found admin.Failures) *admin.Failure {
	at := slices.IndexFunc(found.Kinds, func(k admin.Failure) bool { return k.Type == w.jobType && k.Fingerprint == w.fingerprint })
	if at < 0 {
		return nil
	}
	return &found.Kinds[at]
}
