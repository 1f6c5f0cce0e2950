package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

const retryLong = `Enqueues a new job like a final one, due at once, and prints its id: a final job itself never changes. Either for the
ids, or with flags for all failed jobs that the flags describe (hipq failures lists them), the newest so many with --limit;
or with --state closed or finished and --again for others. The two are linked (hipq show), and the failed one is
closed: hipq status counts it as failed no more. A job that was retried or dismissed, or that finished, is retried only
with --again. Where a job with the same type and key is not final, that one's id is printed, with a word about it to
stderr, and nothing is changed.

Exit codes: 0 done · 1 some could not be retried, or were before · 64 usage · 75 the database is unreachable or busy ·
78 configuration.`

func (a *app) retryCommand() *cobra.Command {
	again := false
	c := a.operateCommand(&cobra.Command{
		Use:        "retry QUEUE [ID…]",
		Short:      "Enqueue new jobs like final ones",
		Long:       retryLong,
		Example:    "  hipq retry emails 42\n  hipq retry emails --type send --error 'connection refused' --since 1d",
		SuggestFor: []string{"requeue", "rerun", "redo", "repeat"},
	}, "retried", []admin.Status{admin.Failed}, []admin.Status{admin.Closed, admin.Finished}, func(cmd *cobra.Command, f *operateFlags, o *operation) error {
		if !again && f.state != "" && f.state != string(admin.Failed) {
			return usagef("--state %s: what finished, or was retried or dismissed, is retried with --again", f.state)
		}
		o.again, o.can, o.would = again, func(j *job.Job) error { return admin.CanRetry(j, again) }, wouldRetry(cmd.Context())
		o.do = func(ctx context.Context, q *queue.Queue, ids []int64, batch []*change) error {
			added, err := admin.Of(q).Retry(ctx, again, ids...)
			refused, _ := errors.AsType[admin.Refused](err)
			for n, job := range added {
				if err != nil && (refused == nil || refused[n] != nil) {
					continue
				}
				if batch[n].NewID = &job.ID; job.Duplicate {
					batch[n].Result = duplicate
				}
			}
			return err
		}
		var i *instance
		o.prepare = func(of *instance) error {
			i = of
			return nil
		}
		o.hint = func(q *queue.Queue, id int64, err error) string {
			if j, unread := q.Get(cmd.Context(), id); errors.Is(err, admin.ErrNotFinal) && unread == nil && j.State() == job.Retry {
				return fmt.Sprintf("hipq reschedule %s %d --in 0s runs it now", q.Name, id)
			}
			closed, ok := errors.AsType[*admin.ClosedError](err)
			if !ok && !errors.Is(err, admin.ErrFinished) {
				return ""
			}
			const again = "--again retries it all the same"
			if !ok {
				return again
			}
			last, said := i.fate(cmd.Context(), q, closed.RetriedAs)
			if last != nil && !last.Status.IsFinal() { // it would be a duplicate of that one
				return said + fmt.Sprintf(": hipq show %s %d", q.Name, last.ID)
			}
			return said + again
		}
		return nil
	})
	c.Flags().BoolVar(&again, "again", false, "also jobs that were retried or dismissed before, or that finished")
	alsoAbout(c, "again", admin.Closed)
	return c
}

// fate finds the last of the jobs that have repeated another, the first of them id, and says how it ended; nil if it isn't there any more.
func (i *instance) fate(ctx context.Context, q *queue.Queue, id int64) (last *job.Job, said string) {
	j, err := q.Get(ctx, id)
	switch {
	case err != nil:
		return nil, ""
	case j.RetriedAs != 0:
		return i.fate(ctx, q, j.RetriedAs)
	case !j.Status.IsFinal():
		return j, fmt.Sprintf("job %d, its retry, has not ended", j.ID)
	}
	return j, fmt.Sprintf("job %d, its retry, %s %s; ", j.ID, ended(j), i.local(j.UpdateTime))
}

// wouldRetry finds the jobs that would not be retried, for another has their type and key.
func wouldRetry(ctx context.Context) func(*queue.Queue, *job.Job, *change) error {
	before := map[[2]string]bool{}
	return func(q *queue.Queue, j *job.Job, c *change) error {
		key := [2]string{j.Type, j.Key}
		if before[key] {
			c.Result = duplicate
		}
		before[key] = true
		return admin.Of(q).Find(ctx, admin.Filter{Type: j.Type, Key: j.Key, Limit: 1}, func(newest *job.Job) error {
			if !newest.Status.IsFinal() {
				c.NewID, c.Result = &newest.ID, duplicate
			}
			return nil
		})
	}
}

// dryRunUsage is what --dry-run does, in each command that has it.
const dryRunUsage = "say what it would do, and to which jobs, and change nothing; exit 1 if that is nothing"

const dismissLong = `Closes failed jobs about which nothing is to be done any more: hipq status counts them as failed no more, and hipq retry
leaves them out. Either those of the ids, or with flags all failed ones that the flags describe (hipq failures lists them),
the newest so many with --limit. They stay as long as failed jobs do, and are still listed by hipq failures --state closed.
It may be repeated.

Exit codes: 0 done · 1 some could not be dismissed · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) dismissCommand() *cobra.Command {
	return a.operateCommand(&cobra.Command{
		Use:        "dismiss QUEUE [ID…]",
		Short:      "Close failed jobs that shall not run again",
		Long:       dismissLong,
		Example:    "  hipq dismiss emails 42\n  hipq dismiss emails --error 'no such customer' --dry-run",
		SuggestFor: []string{"ignore", "close", "discard"},
	}, "dismissed", []admin.Status{admin.Failed}, nil, func(_ *cobra.Command, _ *operateFlags, o *operation) error {
		o.can = admin.CanDismiss
		o.do = func(ctx context.Context, q *queue.Queue, ids []int64, _ []*change) error {
			return admin.Of(q).Dismiss(ctx, ids...)
		}
		return nil
	})
}
