package queuetest

import (
	"fmt"
	"slices"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// Queue is a queue with assertions about its jobs. A job.Params describes a job as enqueued; zero fields match anything. JSON
// data are compared as JSON; At and In (from the clock's now) with the job's due time. A failed assertion fails the test, and
// prints the differences and all jobs of the queue.
type Queue struct {
	*queue.Queue
	in *Instance
}

// WantJob wants a live job like this, and returns it.
func (q *Queue) WantJob(want job.Params) *job.Job {
	q.in.t.Helper()
	return q.one("queued", isQueued, want)
}

// WantFinished wants a finished job like this, and returns it.
func (q *Queue) WantFinished(want job.Params) *job.Job {
	q.in.t.Helper()
	return q.one("finished", func(j *job.Job) bool { return j.State() == job.Final && j.Error == job.None }, want)
}

// WantFailed wants a failed or cancelled job like this, and returns it; see its Error.
func (q *Queue) WantFailed(want job.Params) *job.Job {
	q.in.t.Helper()
	return q.one("failed", func(j *job.Job) bool { return j.State() == job.Final && j.Error != job.None }, want)
}

// WantOnly wants the live jobs to be exactly these, in any order, and returns them in this order.
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
		text += fmt.Sprintf("job %d is also queued\n", j.ID)
	}
	q.in.t.Fatalf("%s: %s%s", q.Name, text, q.list(all))
	return nil
}

// WantEmpty wants all jobs to be final.
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
	q.in.t.Fatalf("%s: %d %s jobs, not one, are like %s\n%s", q.Name, len(like), what, q.describe(want), q.list(all))
	return nil
}

// match assigns similar jobs to as many of the wanted ones as possible.
func (q *Queue) match(want []job.Params, have []*job.Job) (matched []*job.Job, missing []job.Params, others []*job.Job) {
	of := make([]int, len(have)) // which wanted job has it, from 1
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

func (q *Queue) all() (list []*job.Job) {
	q.in.t.Helper()
	q.in.check(admin.Of(q.Queue).Find(q.in.context(), admin.Filter{}, func(j *job.Job) error {
		list = append(list, j)
		return nil
	}))
	return list
}
