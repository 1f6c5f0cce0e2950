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

func (a *app) retryCommand() *cobra.Command {
	again, others := false, []admin.Status{admin.Closed, admin.Finished}
	c := a.operateCommand("retry", "retried", []admin.Status{admin.Failed}, others, func(cmd *cobra.Command, o *operation) error {
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

const dryRunUsage = "say what would change, and change nothing; exit 1 if that is nothing"

func (a *app) dismissCommand() *cobra.Command {
	return a.operateCommand("dismiss", "dismissed", []admin.Status{admin.Failed}, nil, func(_ *cobra.Command, o *operation) error {
		o.can = admin.CanDismiss
		o.do = func(ctx context.Context, q *admin.Queue, ids []int64, _ []*change) error {
			return q.Dismiss(ctx, ids...)
		}
		return nil
	})
}
