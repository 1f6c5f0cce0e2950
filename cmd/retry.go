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

const retryLong = `Enqueues a copy of a final job, due at once, and prints its id. The final job itself doesn't change, except that a
failed one is closed: hipq status no longer counts it as failed. hipq show links the two.

Name the ids, or select failed jobs with flags (hipq failures lists them); --limit takes only the newest. A job that
was retried or dismissed, or that finished, is retried only with --again. With it, flags select closed jobs too: those
that were retried, dismissed or cancelled. For finished ones add --state finished. If a job with the same type and key
is not final, nothing changes, and its id is printed, with a note on stderr.

Exit codes: 0 done · 1 some could not be retried, or were retried before · 64 usage · 75 the database is unreachable or
busy · 78 configuration.`

func (a *app) retryCommand() *cobra.Command {
	again := false
	c := a.operateCommand(&cobra.Command{
		Use:        "retry QUEUE [ID…]",
		Short:      "Enqueue copies of failed or finished jobs",
		Long:       retryLong,
		Example:    "  hipq retry emails 42\n  hipq retry emails --type send --error 'connection refused' --since 1d",
		SuggestFor: []string{"requeue", "rerun", "redo", "repeat"},
	}, "retried", []admin.Status{admin.Failed}, []admin.Status{admin.Closed, admin.Finished}, func(cmd *cobra.Command, o *operation) error {
		if !again && o.state != "" && o.state != string(admin.Failed) {
			return usagef("--state %s: add --again to retry jobs that finished, or were retried or dismissed", o.state)
		}
		o.again, o.can, o.would = again, func(j *job.Job) error { return admin.CanRetry(j, again) }, wouldRetry(cmd.Context())
		o.do = func(ctx context.Context, q *admin.Queue, ids []int64, batch []*change) error {
			added, err := q.Retry(ctx, again, ids...)
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
		o.hint = func(i *instance, q *queue.Queue, id int64, err error) string {
			if j, unread := q.Get(cmd.Context(), id); errors.Is(err, admin.ErrNotFinal) && unread == nil && j.State() == job.Retry {
				return fmt.Sprintf("hipq reschedule %s %d --in 0s runs it now", q.Name, id)
			}
			var last *job.Job
			said := ""
			if closed, ok := errors.AsType[*admin.ClosedError](err); ok {
				last, said = i.fate(cmd.Context(), q, closed.RetriedAs)
			} else if !errors.Is(err, admin.ErrFinished) {
				return ""
			}
			if last != nil && !last.Status.IsFinal() { // it would be a duplicate of that job
				return said + fmt.Sprintf(": hipq show %s %d", q.Name, last.ID)
			}
			return said + "--again retries it anyway"
		}
		return nil
	})
	c.Flags().BoolVar(&again, "again", false, "also jobs that were retried or dismissed before, or that finished")
	alsoAbout(c, "again", admin.Closed)
	return c
}

// fate follows the retries of job id to the last one and says how that ended; nil if it was deleted.
func (i *instance) fate(ctx context.Context, q *queue.Queue, id int64) (last *job.Job, said string) {
	j, err := q.Get(ctx, id)
	switch {
	case err != nil:
		return nil, ""
	case j.RetriedAs != 0:
		return i.fate(ctx, q, j.RetriedAs)
	case !j.Status.IsFinal():
		return j, fmt.Sprintf("its retry, job %d, has not ended", j.ID)
	}
	return j, fmt.Sprintf("its retry, job %d, %s %s; ", j.ID, ended(j), i.local(j.UpdateTime))
}

// wouldRetry finds the jobs that would not be retried because another job has their type and key.
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

// dryRunUsage is the usage of every command's --dry-run.
const dryRunUsage = "say what would change, and change nothing; exit 1 if that is nothing"

const dismissLong = `Closes failed jobs that need no more work. hipq status no longer counts them as failed, and hipq retry leaves them
out. Name the ids, or select failed jobs with flags (hipq failures lists them); --limit takes only the newest. The
jobs are kept as long as other failed jobs, and hipq failures --state closed still lists them. You may repeat it.

Exit codes: 0 done · 1 some could not be dismissed · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) dismissCommand() *cobra.Command {
	return a.operateCommand(&cobra.Command{
		Use:        "dismiss QUEUE [ID…]",
		Short:      "Close failed jobs that need no retry",
		Long:       dismissLong,
		Example:    "  hipq dismiss emails 42\n  hipq dismiss emails --error 'no such customer' --dry-run",
		SuggestFor: []string{"ignore", "close", "discard"},
	}, "dismissed", []admin.Status{admin.Failed}, nil, func(_ *cobra.Command, o *operation) error {
		o.can = admin.CanDismiss
		o.do = func(ctx context.Context, q *admin.Queue, ids []int64, _ []*change) error {
			return q.Dismiss(ctx, ids...)
		}
		return nil
	})
}
