package cmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
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
	// limits those mailed in full. mailedAmong is how many of a queue's failed jobs it counts, and countedWithin limits that.
	mailedMost, kindsMost, mailedWhole, mailedAmong = 50, 1000, 10, 100_000
	countedWithin                                   = 2 * time.Second
)

type failedWay struct{ jobType, fingerprint string }

// refusedRows is the fingerprint of all rows that are no valid jobs, of whatever type. Otherwise an application could fill the
// mail with them.
const refusedRows = "refused"

// wayOf returns the way in which a job with an error failed.
func wayOf(jobType, why string) failedWay {
	if refused(why) {
		return failedWay{fingerprint: refusedRows}
	}
	return failedWay{jobType, texts.Fingerprint(why)}
}

// notice names the notice for jobs of a queue that failed for good in this way, or by another state, for their attempts.
func (w failedWay) notice(state activity.State, queue string) string {
	return fmt.Sprintf("%s %s %s %s", state, queue, w.fingerprint, cmp.Or(w.jobType, job.None))
}

// name is the queue and the job type for people.
func (w failedWay) name(queue string) string {
	if w.fingerprint == refusedRows {
		return queue
	}
	return queue + "/" + texts.ShellWord(w.jobType)
}

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
	all, left := make([][]failedWay, len(queues)), make([]bool, len(queues))
	for n, q := range queues {
		if all[n], left[n], err = untold(ctx, board, q, newest[q.Name], now); err != nil {
			return err
		}
	}
	for n, ways := range share(all, mailedWhole) {
		left[n] = left[n] || len(ways) < len(all[n])
		if err := (mailing{a, i, board, now, mailedAmong}).mail(ctx, queues[n], ways, newest[queues[n].Name]); err != nil {
			return err
		}
		if left[n] { // the next tick mails them, unless too many were mailed already
			err := board.Once(ctx, "other failures of "+queues[n].Name, now, mailedAgain, func() error {
				return a.tell(fmt.Sprintf("jobs of %s failed in other ways too; see: %s", queues[n].Name, i.command("hipq failures "+queues[n].Name+" --since 1h")))
			})
			if err != nil {
				return err
			}
		}
	}
	if !back.IsZero() {
		a.say(fmt.Sprintf("there is too much activity: this covers only failures since %s; see: %s", i.local(back), i.command("hipq failures --since 1h")))
	}
	if took >= lookedLong && !slices.Contains(left, true) {
		return board.Note(ctx, noted, now)
	}
	return nil
}

// share returns the first ways of each queue, up to most in all, but at least one of each: no queue's failures take the room of
// another's.
func share(all [][]failedWay, most int) [][]failedWay {
	ours := make([][]failedWay, len(all))
	for turn, more := 0, true; more; turn++ {
		more = false
		for n, ways := range all {
			if turn < len(ways) && (turn == 0 || most > 0) {
				ours[n], most, more = ways[:turn+1], most-1, true
			}
		}
	}
	return ours
}

// mailing is one tick's look for failures to mail.
type mailing struct {
	*app
	of    *instance
	board alert.Log
	now   time.Time
	// among is how many of a queue's failed jobs it counts.
	among int
}

// mail mails the ways that no other tick mails at the same time, and notes them.
func (m mailing) mail(ctx context.Context, q *queue.Queue, ways []failedWay, newest map[failedWay]activity.Entry) error {
	count := func(status admin.Status) func() (admin.Failures, error) {
		return sync.OnceValues(func() (admin.Failures, error) {
			return admin.Of(q).NewestFailures(ctx, admin.Filter{Status: status}, m.among, countedWithin)
		})
	}
	failed, retried := count(admin.Failed), count(admin.Retry)
	for _, w := range ways {
		e := newest[w]
		err := m.board.Once(ctx, w.notice(e.State, q.Name), m.now, mailedAgain, func() error {
			err := m.board.Note(ctx, []string{openNotice + " " + w.notice(activity.Failed, q.Name)}, m.now)
			if err != nil {
				return err
			}
			found, err := failed()
			again := admin.Failures{}
			if err == nil && e.State == activity.Error {
				again, err = retried()
			}
			if err != nil {
				return err
			}
			return m.mailWay(q, w, e, found, again)
		})
		if err != nil {
			return err
		}
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
		w := wayOf(e.JobType, e.Cause())
		if was, ok := of[w]; !ok && len(of) < kindsMost || ok && was.State == activity.Error && e.State == activity.Failed {
			of[w] = e
		}
	})
	return newest, back, err
}

// untold returns the kinds of failure of a queue that no tick has mailed for an hour, latest first, and whether there are more
// than may be mailed in an hour. Failed attempts are no news if a job that failed for good in the same way was mailed.
func untold(ctx context.Context, board alert.Log, q *queue.Queue, newest map[failedWay]activity.Entry, now time.Time) (ways []failedWay, more bool, err error) {
	if len(newest) == 0 {
		return nil, false, nil
	}
	room, lately := mailedMost, map[string]bool{}
	for _, state := range []activity.State{activity.Failed, activity.Error} {
		said, err := board.Under(ctx, string(state)+" "+q.Name)
		if err != nil {
			return nil, false, err
		}
		for notice, at := range said {
			if now.Sub(at).Abs() < mailedAgain { // a time far ahead is from before the clock was set back
				lately[notice] = true
				room--
			}
		}
	}
	for _, w := range slices.SortedFunc(maps.Keys(newest), func(a, b failedWay) int { return cmp.Compare(newest[b].ID, newest[a].ID) }) {
		if !lately[w.notice(newest[w].State, q.Name)] && !lately[w.notice(activity.Failed, q.Name)] {
			ways = append(ways, w)
		}
	}
	room = max(0, min(room, len(ways)))
	return ways[:room], room < len(ways), nil
}

// mailWay mails a way in which attempts of a queue failed: what, since when, how often, and what to do.
func (m mailing) mailWay(q *queue.Queue, w failedWay, e activity.Entry, found, retried admin.Failures) error {
	i, of := m.of, w.name(q.Name)
	forGood, again, more := w.among(found), w.among(retried), found.More
	if forGood == nil && (more || found.Others > 0) && e.State == activity.Failed { // not among those counted
		forGood, more = &admin.Failure{Type: w.jobType, Jobs: 1, First: job.Time{Time: e.At}, Error: e.Error}, true
		if w.fingerprint != refusedRows {
			forGood.Fingerprint = w.fingerprint
		}
	}
	switch {
	case again != nil && e.State == activity.Error:
		return m.tell(fmt.Sprintf("%s of %s failed an attempt, since %s: %s; %s", counted(again.Jobs, retried.More), of, i.local(again.First.Time),
			e.Error, retryAt(i, *again)), "look:  "+failureOf(q.Name, admin.Filter{}, *again, i.command).show, i.runAs())
	case forGood != nil:
		by := admin.Filter{Status: admin.Failed}
		if w.fingerprint == refusedRows && forGood.Fingerprint != "" {
			of = failedWay{jobType: forGood.Type}.name(q.Name)
		} else if w.fingerprint == refusedRows { // of several kinds
			by.Error = job.ErrInvalid.Error()
		}
		k := failureOf(q.Name, by, *forGood, i.command)
		remedy := "close: " + *k.Dismiss
		if k.Retry != nil {
			remedy = "retry: " + *k.Retry + "   # after fixing the cause"
		}
		if by.Error != "" {
			remedy = "close: each kind by its command there"
		}
		have := "have"
		if k.Jobs == 1 {
			have = "has"
		}
		return m.tell(fmt.Sprintf("%s of %s %s failed for good since %s: %s", counted(k.Jobs, more), of, have, i.local(k.First.Time), dash(e.Error)),
			"look:  "+k.show, remedy, i.runAs())
	}
	// the job was discarded, dismissed or retried meanwhile
	failed, command := "an attempt", "hipq activity --queue "+q.Name
	if e.State == activity.Failed {
		failed = "for good"
	}
	if w.jobType != "" {
		command += " --type " + texts.ShellWord(w.jobType)
	}
	return m.tell(fmt.Sprintf("a job of %s failed %s at %s: %s", of, failed, i.local(e.At), e.Error),
		"look:  "+i.command(fmt.Sprintf("%s --state %s", command, e.State)), i.runAs())
}

// counted is a number of jobs in words. Older ones may not have been counted.
func counted(n int64, more bool) string {
	if more {
		return "at least " + texts.Count(n, "job")
	}
	return texts.Count(n, "job")
}

// among returns the failures of this way, merged if they are of several kinds; nil if there are none.
func (w failedWay) among(found admin.Failures) (merged *admin.Failure) {
	for _, k := range found.Kinds {
		switch {
		case wayOf(k.Type, k.Error) != w:
		case merged == nil:
			merged = &k
		default:
			merged.Type, merged.Fingerprint, merged.Jobs = "", "", merged.Jobs+k.Jobs
			merged.First = job.Time{Time: slices.MinFunc([]time.Time{merged.First.Time, k.First.Time}, time.Time.Compare)}
		}
	}
	return merged
}
