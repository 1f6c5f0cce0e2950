package cmd

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/worker"
)

// mailUnhandled mails job types that have due jobs, but no worker for a day. It checks each queue once an hour.
func (a *app) mailUnhandled(ctx context.Context, i *instance, now time.Time) error {
	board := alert.NewLog(i.db)
	queues, err := i.mailed()
	if err != nil || len(queues) == 0 {
		return err
	}
	names := texts.Map(queues, func(q *queue.Queue) string { return "looked for unhandled types of " + q.Name })
	unsaid, err := board.Unsaid(ctx, names, now, time.Hour) // most ticks end here, after one read for all queues
	for n, q := range queues {
		if err == nil && slices.Contains(unsaid, names[n]) {
			err = board.Once(ctx, names[n], now, time.Hour, func() error {
				within, cancel := context.WithTimeout(ctx, lookedWithin)
				defer cancel()
				err := a.mailUnhandledOf(within, i, q, now)
				if within.Err() != nil { // too many jobs are due: the next look is in an hour too
					return nil
				}
				return err
			})
		}
	}
	return err
}

func (a *app) mailUnhandledOf(ctx context.Context, i *instance, q *queue.Queue, now time.Time) error {
	paused, err := admin.Of(q).Paused(ctx)
	if err != nil {
		return err
	}
	unhandled, err := admin.Of(q).Unhandled(ctx, paused, now, i.handled(q.Name))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(unhandled)) {
		handled, err := i.handledLately(ctx, q.Name, name, now.Add(-unhandledAgain))
		if err == nil && !handled {
			err = alert.NewLog(i.db).Once(ctx, fmt.Sprintf("unhandled %s %s", q.Name, name), now, unhandledAgain, func() error {
				return a.tell(fmt.Sprintf("jobs of %s/%s have been due since %s, and no worker has handled that type for a day",
					q.Name, texts.ShellWord(name), i.local(unhandled[name])), "look:  "+i.command("hipq jobs "+q.Name+" --type "+texts.ShellWord(name)), i.runAs())
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leftNotice is the prefix of the notices for job types that workers of a host leave out. Another user's may run them.
func leftNotice(host string) string { return fmt.Sprintf("left out %s %d", host, os.Geteuid()) }

// mailHandled mails which left-out job types of this host have their handlers again.
func (a *app) mailHandled(ctx context.Context, i *instance, p worker.Params) error {
	log := alert.NewLog(i.db)
	said, err := log.Under(ctx, leftNotice(p.Host))
	for _, name := range slices.Sorted(maps.Keys(said)) {
		queue, jobType, _ := strings.Cut(strings.TrimPrefix(name, leftNotice(p.Host)+" "), " ")
		if !slices.ContainsFunc(p.Queues, func(q worker.Queue) bool { return q.Name == queue && q.Handles(jobType) }) {
			continue
		}
		if err := a.tellOver(ctx, log, name, said[name],
			fmt.Sprintf("job type %s of %s is no longer left out; that was mailed at %s", jobType, queue, i.local(said[name]))); err != nil {
			return err
		}
	}
	return err
}

// handledLately reports whether a job of a type started since a time. The activity fills gaps in the metrics.
func (i *instance) handledLately(ctx context.Context, queue, jobType string, since time.Time) (bool, error) {
	some, all, err := monitor.New(i.db).Started(ctx, queue, jobType, since)
	if err != nil || some || all {
		return some, err
	}
	return activity.New(i.db).Started(ctx, queue, jobType, since)
}
