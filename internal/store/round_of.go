package store

import (
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// Round is what a worker does to a queue in one transaction: it settles attempts that have ended, and starts the next jobs.
type Round struct {
	Worker workers.Worker
	// Token is the lock of the jobs that the round starts. A round that ended in an error may have been committed: done again with
	// its token, it finds what it has started, and settles nothing twice.
	Token string
	// Settle are the attempts that have ended.
	Settle []Settled
	// Slots is how many jobs to start, from Candidates, at most.
	Slots      int
	Candidates Candidates
	// Again says that the round may have been done before, or parts of it: it looks at each job before it settles it.
	Again bool
	// Stopped gives an error once the worker's jobs are stopped: from then on the round starts none. Nil is never.
	Stopped func() error
	// Tried are the ids of the jobs that it has set out to start, over all times that it is done.
	Tried *[]any
}

// New is a round of a worker, with a token of its own.
func NewRound(w workers.Worker) Round {
	token := uuid.Must(uuid.NewV7()) // it fails only where there is no randomness at all
	return Round{Worker: w, Token: token.String(), Tried: new([]any)}
}

// Done is what a round did.
type Done struct {
	// Started are the jobs to run now.
	Started []*job.Job
	// Resting are those in the state error, under the worker's lock, about which its retry handlers are to be asked now.
	Resting []Settled
	// Unsettled are those whose rows another transaction holds: to be settled by a later round.
	Unsettled []Settled
	// Lost are the jobs whose settlement changed nothing, because the worker had lost its lock on them.
	Lost []*job.Job
	// More says that there may be jobs which the round could have started, had it had more slots or looked longer.
	More bool
	// Wait is how long the queue's rate lets no job start, if it does.
	Wait time.Duration
	// Full says that jobs wait for room in the limit, and may get it soon.
	Full bool
}

// Settled is an attempt that has ended, and how.
type Settled struct {
	Job     *job.Job
	Outcome job.Outcome
	// Waits is the status in which the job waits for its retry handler after an error: deciding for one of this worker, undecided
	// for one of any, empty for the policy.
	Waits job.Status
	// NotBegun says that no handler has seen the attempt: it says nothing about whether the job ends its workers.
	NotBegun bool
	// Asked says that the attempt was settled before, and that a retry handler has been asked about the job since. Decision is
	// what it said; nil leaves it to the policy, and Note says why.
	Asked    bool
	Decision *job.Decision
	Note     string
}

// Said is what the handler of an attempt has said of its progress.
type Said struct {
	Job      *job.Job
	Progress job.Progress
}
