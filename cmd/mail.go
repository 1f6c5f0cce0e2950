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
	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/fingerprint"
	"github.com/hipq/hipq/internal/notice"
	"github.com/hipq/hipq/internal/shell"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/worker"
)

const (
	// lately is how long before a tick jobs may have failed for good without a tick that tells: two crontab lines apart.
	lately = 2 * time.Minute
	// mailedFrom is how many of the latest failures a tick looks at, mailedMost how many kinds of them it tells apart, and
	// mailedWhole how many it tells in full.
	mailedFrom, mailedMost, mailedWhole = 1000, 50, 10
	// mailedSince is the time over which those of a kind are counted.
	mailedSince = 24 * time.Hour
)

// mails says whether what the tick prints becomes a mail of cron's, most likely.
func (a *app) mails(c *config.Config) bool {
	return c.Mail && !a.verbose && !a.onTerminal() && !a.err.isTerminal()
}

// unsaid is an error of which nothing is printed: cron would mail it again.
type unsaid struct{ error }

func (e unsaid) Unwrap() error { return e.error }

// mailOutage has an error that each tick would have said now and then only, and says when it is over. what is what the tick
// works: other crontab lines have outages of their own.
func (a *app) mailOutage(c *config.Config, what []string, err error) error {
	if a.verbose || a.err.isTerminal() || a.signals.ended() != 0 {
		return err
	}
	away := false
	if err != nil {
		code, _ := a.diagnose(err)
		away = code == exitTryLater && !errors.Is(err, worker.ErrLockLost)
	}
	if away && !c.Mail {
		return unsaid{err}
	}
	outage, none := notice.OutageOf(strings.Join(append([]string{c.File}, what...), "\x00"))
	switch {
	case none != nil: // this user has no folder for it
	case away:
		since, say, e := outage.Goes(time.Now())
		if !say {
			return unsaid{err}
		}
		if e == nil {
			err = advised{err, fmt.Sprintf("hipq work has failed since %s; this is said every 15 minutes until it is over", zonedTime(since, c.Location))}
		}
	case err == nil:
		if since, e := outage.Ends(); e == nil && !since.IsZero() && c.Mail {
			a.say(fmt.Sprintf("hipq work is back since %s; it had failed since %s", zonedTime(time.Now(), c.Location), zonedTime(since, c.Location)))
		}
	}
	return err
}

// say prints what is news, and no error.
func (a *app) say(text string, more ...string) {
	if a.json {
		_ = a.err.json(map[string]string{"notice": strings.Join(append([]string{text}, more...), "\n")})
		return
	}
	a.err.text("hipq: %s\n", strings.Join(append([]string{oneLine(text)}, more...), "\n  "))
}

// mailNews says what a tick that took so long should tell, if no other has.
func (a *app) mailNews(ctx context.Context, i *instance, took time.Duration) error {
	now, err := i.db.Clock(ctx)
	if err == nil {
		err = a.mailFailures(ctx, i, now, now.Add(-took-lately))
	}
	if err == nil {
		err = a.mailUnhandled(ctx, i, now)
	}
	return err
}

// failedWay is a way in which jobs of a type failed.
type failedWay struct{ queue, jobType, fingerprint string }

// mailFailures tells of jobs that failed for good since a time: of those of a kind once an hour.
func (a *app) mailFailures(ctx context.Context, i *instance, now, since time.Time) error {
	entries, err := activity.New(i.db).Failed(ctx, since, mailedFrom)
	if err != nil {
		return err
	}
	var ways []failedWay
	newest := map[failedWay]activity.Entry{}
	for _, e := range entries {
		w := failedWay{e.Queue, e.JobType, fingerprint.Of(e.Error)}
		if _, ok := newest[w]; !ok {
			ways, newest[w] = append(ways, w), e
		}
	}
	told := 0
	for _, w := range ways[:min(len(ways), mailedMost)] {
		ours, err := notice.NewBoard(i.db).Claim(ctx, fmt.Sprintf("failed %s %s %s", w.queue, w.fingerprint, w.jobType), now, time.Hour)
		if err != nil {
			return err
		}
		if !ours {
			continue
		}
		if told++; told > mailedWhole {
			continue
		}
		if err := a.mailFailure(ctx, i, w, newest[w], now); err != nil {
			return err
		}
	}
	if more := told - mailedWhole; more > 0 {
		a.say(fmt.Sprintf("jobs failed for good in %d other ways; look: hipq failures --since 1h", more))
	}
	return nil
}

// mailFailure tells of one kind: what, since when, how often, and what to do.
func (a *app) mailFailure(ctx context.Context, i *instance, w failedWay, newest activity.Entry, now time.Time) error {
	q, err := i.queue(ctx, w.queue)
	if err != nil {
		return err
	}
	found, err := q.Failures(ctx, queue.Filter{
		Standing: queue.Failed, Type: w.jobType, Fingerprint: w.fingerprint, Since: now.Add(-mailedSince),
	})
	if err != nil {
		return err
	}
	which := fmt.Sprintf(" %s --type %s --fingerprint %s", w.queue, shell.Word(w.jobType), w.fingerprint)
	if len(found.Kinds) == 0 { // discarded, or dismissed or tried again by now
		a.say(fmt.Sprintf("a job of %s/%s failed for good at %s: %s", w.queue, shell.Word(w.jobType), i.local(newest.At), newest.Error),
			fmt.Sprintf("look: hipq activity --queue %s --type %s --state failed", w.queue, shell.Word(w.jobType)))
		return nil
	}
	k := found.Kinds[0]
	a.say(fmt.Sprintf("%s of %s/%s failed for good since %s: %s", numbered(k.Jobs), w.queue, shell.Word(w.jobType), i.local(k.First), k.Error),
		"look:  hipq failures"+which, "retry: hipq retry"+which)
	return nil
}

// mailUnhandled tells of job types that have due jobs and that nobody has handled for a day. It looks once an hour.
func (a *app) mailUnhandled(ctx context.Context, i *instance, now time.Time) error {
	board := notice.NewBoard(i.db)
	ours, err := board.Claim(ctx, "looked for unhandled types", now, time.Hour)
	if err != nil || !ours {
		return err
	}
	for _, c := range i.Queues {
		if i.unfit[c.Name] != nil {
			continue
		}
		q, err := queue.New(i.db, c.Options)
		if err != nil {
			return err
		}
		counts, err := q.Counts(ctx)
		if err != nil {
			return err
		}
		unhandled, err := q.Unhandled(ctx, counts, now, i.handled(c.Name))
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(unhandled)) {
			handled, err := monitor.New(i.db).Started(ctx, c.Name, name, now.Add(-24*time.Hour))
			if err == nil && !handled {
				ours, err = board.Claim(ctx, fmt.Sprintf("unhandled %s %s", c.Name, name), now, 24*time.Hour)
			}
			if err != nil {
				return err
			}
			if !handled && ours {
				a.say(fmt.Sprintf("jobs of %s/%s have been due since %s, and no worker of the last day handled that type",
					c.Name, shell.Word(name), i.local(unhandled[name])), "look: hipq jobs "+c.Name+" --type "+shell.Word(name))
			}
		}
	}
	return nil
}
