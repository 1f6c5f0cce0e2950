package queuetest

import (
	"context"
	"fmt"
	"slices"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// Queue is a queue, with what a test says of its jobs. A job is described by a job.Params, as it is when it is enqueued: what is
// zero or nil there may be anything. Data that are JSON are compared as such, At and In (from now, by the instance's clock)
// with the time at which the job is due. What isn't so fails the test, with what differs and with all jobs of the queue.
type Queue struct {
	*queue.Queue
	in *Instance
}

// WantJob wants that one job which isn't final is like this, and gives it.
func (q *Queue) WantJob(want job.Params) *job.Job {
	q.in.t.Helper()
	return q.one("queued", isQueued, want)
}

// WantFinished wants that one job like this has been done.
func (q *Queue) WantFinished(want job.Params) *job.Job {
	q.in.t.Helper()
	return q.one("finished", func(j *job.Job) bool { return j.State() == job.Final && j.Error == job.None }, want)
}

// WantFailed wants that one job like this has failed for good, or was cancelled: its Error says why.
func (q *Queue) WantFailed(want job.Params) *job.Job {
	q.in.t.Helper()
	return q.one("failed", func(j *job.Job) bool { return j.State() == job.Final && j.Error != job.None }, want)
}

// WantOnly wants that the jobs which aren't final are these, in any order, and no others; and gives them in this order.
func (q *Queue) WantOnly(want ...job.Params) []*job.Job {
	q.in.t.Helper()
	all := q.all()
	matched, missing, others := q.match(want, slices.DeleteFunc(slices.Clone(all), func(j *job.Job) bool { return !isQueued(j) }))
	if len(missing)+len(others) == 0 {
		return matched
	}
	text := ""
	for _, w := range missing {
		text += fmt.Sprintf("no queued job is like %s\n", q.describe(w))
		text += q.nearest(w, others)
	}
	for _, j := range others {
		text += fmt.Sprintf("job %d is queued besides\n", j.ID)
	}
	q.in.t.Fatalf("%s: %s%s", q.Name, text, q.list(all))
	return nil
}

// WantEmpty wants that all jobs are final.
func (q *Queue) WantEmpty() {
	q.in.t.Helper()
	q.WantOnly()
}

func (q *Queue) one(what string, some func(*job.Job) bool, want job.Params) *job.Job {
	q.in.t.Helper()
	all := q.all()
	var like, unlike []*job.Job
	for _, j := range all {
		switch {
		case !some(j):
		case len(q.differences(want, j)) == 0:
			like = append(like, j)
		default:
			unlike = append(unlike, j)
		}
	}
	switch len(like) {
	case 1:
		return like[0]
	case 0:
		q.in.t.Fatalf("%s: no %s job is like %s\n%s%s", q.Name, what, q.describe(want), q.nearest(want, unlike), q.list(all))
	}
	q.in.t.Fatalf("%s: %d %s jobs, and not one, are like %s\n%s", q.Name, len(like), what, q.describe(want), q.list(all))
	return nil
}

// match finds for each of the jobs that are wanted one that is like it, if that can be: whichever are alike, as many as
// possible have one.
func (q *Queue) match(want []job.Params, have []*job.Job) (matched []*job.Job, missing []job.Params, others []*job.Job) {
	of := make([]int, len(have)) // which of want has it, from 1
	var give func(w int, tried []bool) bool
	give = func(w int, tried []bool) bool {
		for i, j := range have {
			if tried[i] || len(q.differences(want[w], j)) > 0 {
				continue
			}
			tried[i] = true
			if of[i] == 0 || give(of[i]-1, tried) {
				of[i] = w + 1
				return true
			}
		}
		return false
	}
	for w := range want {
		if !give(w, make([]bool, len(have))) {
			missing = append(missing, want[w])
		}
	}
	matched = make([]*job.Job, len(want))
	for i, j := range have {
		if of[i] > 0 {
			matched[of[i]-1] = j
		} else {
			others = append(others, j)
		}
	}
	return matched, missing, others
}

func isQueued(j *job.Job) bool { return j.State() != job.Final }

func queued(ctx context.Context, q *queue.Queue, f func(*job.Job)) error {
	return admin.Of(q).Find(ctx, admin.Filter{}, func(j *job.Job) error {
		if isQueued(j) {
			f(j)
		}
		return nil
	})
}

func (q *Queue) all() (list []*job.Job) {
	q.in.t.Helper()
	q.in.check(admin.Of(q.Queue).Find(q.in.context(), admin.Filter{}, func(j *job.Job) error {
		list = append(list, j)
		return nil
	}))
	return list
}
