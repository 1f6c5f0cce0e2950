package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// Round is one transaction of a worker on a queue: it settles attempts that have ended, and starts the next jobs.
type Round struct {
	Worker workers.Worker
	// Token is the lock of the jobs that the round starts. A failed round may have been committed: if repeated with its
	// token, it finds the jobs it started, and settles nothing twice.
	Token  string
	Settle []Settled
	Slots  int
	// Candidates are where the jobs to start come from. Busy are types of this worker that have no free slot now.
	Candidates *Candidates
	Busy       []Types
	// Again says that the round may have been committed, wholly or partly: it checks each job before it settles it.
	Again bool
	// Stopped returns an error once the worker must stop its jobs: the round then starts none. Nil means never.
	Stopped func() error
	// Tried are the ids of the jobs that it tried to start, over all repetitions.
	Tried *[]any
}

// NewRound returns a worker's round with a new token.
func NewRound(w workers.Worker) Round {
	token := uuid.Must(uuid.NewV7()) // it fails only without a source of randomness
	return Round{Worker: w, Token: token.String(), Tried: new([]any)}
}

// Done is what a round did.
type Done struct {
	Started []*job.Job
	// Ended are attempts that are over, with their Ends. The outcome is the answer's if one, not the handler, ended the attempt.
	Ended []Settled
	// Resting are failed attempts, under the worker's lock, for which its retry handlers must decide now.
	Resting []Settled
	// Unsettled are attempts whose rows another transaction locks, for a later round.
	Unsettled []Settled
	// Lost are those whose settlement changed nothing, because the worker had lost its lock.
	Lost []Settled
	// Missed says that no job started, and that other transactions had locked or started some that were due.
	Missed bool
	// More says that more slots, or a longer look, might have started more jobs.
	More bool
	// RateFor is how long the rate blocks the next start; 0 if it doesn't. WaitsForLimit says that jobs wait for another limit.
	RateFor       time.Duration
	WaitsForLimit bool
}

// End is what an attempt made of its job: its status, and when it runs again. The status is empty if an earlier try wrote it,
// whose commit got no reply.
type End struct {
	Status job.Status
	At     time.Time
}

// Settled is an attempt that has ended, and its outcome.
type Settled struct {
	Job     *job.Job
	Outcome job.Outcome
	// Asks says that after an error a retry handler of this worker decides, not the policy.
	Asks bool
	// NotBegun says that no handler saw the attempt, so it can't show whether the job kills its workers.
	NotBegun bool
	// Asked says that the attempt was settled before, and a retry handler has been asked since.
	Asked bool
	// Progress is the attempt's latest report, if the row has an earlier one; else nil.
	Progress *job.Progress
	// Tell, if set, is for the worker to call when the attempt's end is stored.
	Tell func(job.Outcome, End)
	// End is what a round made of it.
	End End
	Decided
}

// Decided is what came of asking a retry handler about a failed attempt.
type Decided struct {
	// Decision is the retry handler's decision; nil leaves it to the policy.
	Decision *job.Decision
	// Note says why Decision is nil.
	Note string
}

// Said is the progress that an attempt's handler reported.
type Said struct {
	Job      *job.Job
	Progress job.Progress
}

// Round settles and starts jobs in one transaction. It waits for its turn if the queue has limits or a rate; a repetition
// also waits for the earlier try to end. It skips locked rows, but may wait seconds for a lock on a job's key in the index.
// After engine.IsLockTimeout, repeat the round in parts, so that one job doesn't block the others. It may be repeated: see
// Round.Token.
func (q *Queue) Round(ctx context.Context, r Round) (Done, error) {
	var done Done
	var first *firstRead
	again, begun := r.Again, false
	err := q.db.SQL.TxInParts(ctx, func(tx *engine.Tx) []engine.Query {
		if again && r.Candidates != nil {
			r.Candidates.Forget() // the earlier try took some
		}
		begun = false
		first = &firstRead{settling: map[int64]settling{}}
		return q.readFirst(tx, r, first, again)
	}, func(tx *engine.Tx) (err error) {
		begun, first.head.hasAt = true, time.Now()
		if first.finished != len(first.finishing) {
			return errNotAsLeft
		}
		done = Done{}
		slots := r.Slots
		if again {
			if done.Started, err = q.startedUnder(ctx, tx, r); err != nil {
				return err
			}
			if len(done.Started) > 0 {
				slots, done.More = 0, true
			}
		}
		again = true
		var others []int
		if r.Candidates != nil {
			others = []int{q.place(r.Candidates.shard)}
		}
		if err := q.takeTurnsOf(ctx, tx, freed(jobsOf(r.Settle)...), others...); err != nil {
			return err // all at once, in their order
		}
		if err := (settlement{q, tx, r.Worker, &done}).settle(ctx, first); err != nil || slots < 1 || r.Stopped != nil && r.Stopped() != nil {
			return err
		}
		if slices.ContainsFunc(done.Ended, func(e Settled) bool { return e.End.Status == job.StatusAvailable }) {
			r.Candidates.News() // such as a retry without a delay
		}
		return q.startNext(ctx, tx, r, first, &done)
	})
	if errors.Is(err, errNotAsLeft) || !begun && first != nil && len(first.finishing) > 0 && engine.IsLockTimeout(err) {
		r.Again = true
		return q.Round(ctx, r)
	}
	return done, texts.Wrap(err, "settle and start jobs of %s", q.Name)
}

// firstRead is what the round reads in its transaction's first round trip.
type firstRead struct {
	settling map[int64]settling
	// finishing are the attempts that the round finishes without reading their rows first; others are the rest.
	finishing, others []Settled
	// finished is how many rows of finishing the database changed.
	finished int
	// open says whether the worker may start jobs, and due are the candidates it knows already: only without turns. head is
	// what it read of the ranges instead, because it knew none.
	open bool
	due  []candidate
	head heads
}

func (q *Queue) readFirst(tx *engine.Tx, r Round, first *firstRead, again bool) (queries []engine.Query) {
	rest, starts := r.Settle, r.Slots > 0 && !q.TakesTurns()
	values := []engine.Value{q.db.SQL.ClockOf(tx)}
	if !again && q.db.SQL.UpdateAtOnce != "" {
		if first.finishing, rest = q.plain(rest); len(first.finishing) > 0 {
			queries = append(queries, q.finishing(tx, q.db.SQL.UpdateAtOnce, r.Worker.ID, first.finishing))
			values = append(values, engine.Value{SQL: q.db.SQL.RowCount, Into: &first.finished})
		}
	}
	if starts {
		values = append(values, engine.Value{SQL: q.isOpen(q.db.SQL.ForShare), Args: []any{r.Worker.ID, q.Name}, Into: &first.open})
	}
	queries = append(queries, engine.Values(values...))
	if first.others = rest; len(rest) > 0 {
		queries = append(queries, q.settling(r.Worker.ID, rest, tx.SkipLocked, first.settling))
	}
	if starts && !again {
		if first.due = r.Candidates.known(r.Slots); len(first.due) > 0 {
			queries = append(queries, r.Candidates.lock(tx, first.due))
		} else if first.head = r.Candidates.heads(r.Slots); len(first.head.ranges) > 0 {
			queries = append(queries, q.rangesOf(r.Candidates.shard, first.head.ranges))
		}
	}
	return queries
}

// errNotAsLeft means that attempts changed after the round left them, or that their rows are locked.
var errNotAsLeft = errors.New("some attempts are not as their worker left them")

func (q *Queue) logAs(ctx context.Context, tx *engine.Tx, w workers.Worker, entries []activity.Entry) error {
	for i := range entries {
		entries[i].WorkerID, entries[i].Host, entries[i].PID = w.ID, w.Host, w.PID
	}
	return activity.Write(ctx, tx, q.db, entries)
}

// logRows logs what a worker did to these jobs, from their rows.
func (q *Queue) logRows(ctx context.Context, tx *engine.Tx, w workers.Worker, state activity.State, rows activity.JobRows) error {
	rows.Table = q.table
	return activity.WriteRows(ctx, tx, q.db, activity.Entry{Kind: activity.Job, State: state, Queue: q.Name, WorkerID: w.ID, Host: w.Host, PID: w.PID}, rows)
}

// Entry is an entry about a job, without the details that only its caller knows.
func (q *Queue) Entry(j *job.Job, state activity.State) activity.Entry {
	return activity.Entry{
		Kind: activity.Job, State: state, Queue: q.Name, JobID: j.ID, JobType: j.Type, JobKey: j.Key, Attempt: j.Attempt,
	}
}
