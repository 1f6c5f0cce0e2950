package cmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

const (
	// lately is how long before a tick attempts may have failed without a tick that tells: some crontab lines apart.
	lately = 5 * time.Minute
	// lookedAgain is how long before the last look a tick begins to look: entries are there when they are committed.
	lookedAgain = 30 * time.Second
	// lookedLong is after how long a look is noted, for other ticks to go on from there; lookedWithin is how long it may take.
	lookedLong, lookedWithin = 100 * time.Millisecond, 5 * time.Second
	// mailedMost is how many new kinds of a queue's failures a tick tells apart, of kindsMost that there may be, and mailedWhole
	// how many it tells in full. Those of a kind are counted among mailedAmong of the queue's newest jobs.
	mailedMost, kindsMost, mailedWhole, mailedAmong = 50, 1000, 10, 100_000
)

type failedWay struct{ jobType, fingerprint string }

func (w failedWay) notice(queue string) string {
	return fmt.Sprintf("failed %s %s %s", queue, w.fingerprint, w.jobType)
}

// mailFailures tells of attempts that failed since a time, for good or until they are retried: of each kind once an hour. A look that
// took long is noted, and the next one, on whichever host, goes on from there.
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
		if err != nil {
			return err
		}
		whole := ways[:min(len(ways), max(mailedWhole-told, 0))]
		if told += len(ways); len(whole) == 0 {
			continue
		}
		if err := a.mailQueue(ctx, i, q, whole, newest[q.Name]); err != nil {
			return err
		}
	}
	switch {
	case !back.IsZero():
		a.say(fmt.Sprintf("so much has happened that only what failed since %s is known here; look: %s", i.local(back), i.command("hipq failures --since 1h")))
	case told > mailedWhole:
		a.say("jobs failed in other ways too; look: " + i.command("hipq failures --since 1h"))
	}
	if took >= lookedLong {
		return board.Note(ctx, noted, now)
	}
	return nil
}

// lookSince is since when to look for what has failed in queues: a time, or if all of them have been looked at since, shortly before
// that. noted are the notices of it.
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

// failedSince are the ways in which attempts of queues failed since a time, with the newest entry of each, and how far back it has
// looked if not all. Attempts that only lost their worker, or that it gave back, say nothing of a handler before their jobs fail.
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
		w := failedWay{e.JobType, texts.Fingerprint(e.Error)}
		if _, ok := of[w]; !ok && len(of) < kindsMost {
			of[w] = e
		}
	})
	return newest, back, err
}

// untold are the kinds of failure of a queue that were not mailed for an hour, the latest first, and which the caller
// has claimed to tell.
func untold(ctx context.Context, board alert.Log, q *queue.Queue, newest map[failedWay]activity.Entry, now time.Time) (ours []failedWay, err error) {
	if len(newest) == 0 {
		return nil, nil
	}
	ways := slices.SortedFunc(maps.Keys(newest), func(a, b failedWay) int { return cmp.Compare(newest[b].ID, newest[a].ID) })
	said := texts.Map(ways, func(w failedWay) string { return w.notice(q.Name) })
	left, err := board.Unsaid(ctx, said, now, mailedAgain)
	if err != nil {
		return nil, err
	}
	for n, w := range ways {
		if len(ours) == mailedMost {
			break
		}
		if !slices.Contains(left, said[n]) {
			continue
		}
		claimed, err := board.Claim(ctx, said[n], now, mailedAgain)
		if err != nil {
			return nil, err
		}
		if claimed {
			ours = append(ours, w)
		}
	}
	if len(ours) == 0 {
		return nil, nil
	}
	return ours, board.Note(ctx, texts.Map(ours, func(w failedWay) string { return openNotice + " " + w.notice(q.Name) }), now)
}

// mailQueue tells of these ways in which attempts of a queue failed: what, since when, how often, and what to do.
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
		of := q.Name + "/" + texts.ShellWord(w.jobType)
		if k := w.among(found); k != nil {
			k := failureOf(q, admin.Filter{Status: admin.Failed}, *k)
			a.say(fmt.Sprintf("%s of %s failed for good so far, since %s: %s", texts.Count(k.Jobs, "job"), of, i.local(k.First.Time), dash(or0(k.Error))),
				"look:  "+i.command(strings.Replace(*k.Retry, "hipq retry", "hipq failures", 1)),
				"retry: "+i.command(*k.Retry)+"   # when the cause is mended", i.runAs())
			continue
		}
		e, failed, again := newest[w], "for good ", ""
		if e.State == activity.Error {
			failed, again = "", "; it will be retried"
		}
		if k := w.among(retried); k != nil {
			a.say(fmt.Sprintf("attempts of %s of %s failed so far, since %s: %s; they will be retried, the first at %s",
				texts.Count(k.Jobs, "job"), of, i.local(k.First.Time), k.Error, i.local(k.NextRetry.Time)),
				"look: "+i.command(fmt.Sprintf("hipq failures %s --type %s --state retry", q.Name, texts.ShellWord(w.jobType))), i.runAs())
			continue
		}
		// discarded, or dismissed or tried again by now
		a.say(fmt.Sprintf("a job of %s failed %sat %s: %s%s", of, failed, i.local(e.At), e.Error, again),
			"look: "+i.command(fmt.Sprintf("hipq activity --queue %s --type %s --state %s", q.Name, texts.ShellWord(w.jobType), e.State)), i.runAs())
	}
	return nil
}

// among is the kind of these failures that is this way; nil if there is none.
func (w failedWay) among(found admin.Failures) *admin.Failure {
	at := slices.IndexFunc(found.Kinds, func(k admin.Failure) bool { return k.Type == w.jobType && k.Fingerprint == w.fingerprint })
	if at < 0 {
		return nil
	}
	return &found.Kinds[at]
}
