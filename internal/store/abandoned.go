package store

import (
	"sync"

	"github.com/hipq/hipq/queue/job"
)

// Abandoned are a queue's jobs with an attempt that has ended although its handler, in this process, has not returned. It is safe for
// concurrent use.
type Abandoned struct {
	attempts sync.Map // by the job's id
}

// Add notes that the job's attempt has ended without its handler.
func (d *Abandoned) Add(j *job.Job) { d.attempts.Store(j.ID, j.Attempt) }

// Returned notes that the handler of the job's attempt has returned. It may be called for any attempt.
func (d *Abandoned) Returned(j *job.Job) { d.attempts.CompareAndDelete(j.ID, j.Attempt) }

// Attempt is the job's attempt whose handler has not returned; 0 is none.
func (d *Abandoned) Attempt(id int64) int {
	attempt, _ := d.attempts.Load(id)
	n, _ := attempt.(int)
	return n
}

// Abandoned are those of its jobs that run on in this process.
func (q *Queue) Abandoned() *Abandoned { return &q.abandoned }
