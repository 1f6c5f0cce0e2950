// Package queue is the application's side of hipq. Open returns a queue, EnqueueTx adds jobs in your transaction, Wait waits
// for a job, and Answer ends a job whose work is done elsewhere. See package job for jobs, worker for running them, and admin
// for operating a queue.
package queue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Options configure one queue of an instance, like a queue's section in hipq.yaml. Only Name is required. The fields:
//
//	Name string                                   // of the queue
//	Types []job.Type                              // the configured job types; others have the defaults below
//	Config string                                 // names the config that Types come from, so that types that it has lost are forgotten
//	ThrottleLimit int                             // of the sum of throttle factors of running jobs; 0 is none
//	ThrottleGroups *job.ThrottleGroups            // limits of groups
//	RefuseWeightless bool                         // refuses jobs whose throttle factor is 0
//	Rate job.Rate                                 // of starts
//	Shards int                                    // at most 100; 0 is 1 for workers, and the database's number for applications
//	Concurrency int                               // how many jobs may run at once on one host; 0 is the worker's limit
//	Order job.Order                               // empty is job.ByPriority
//	PriorityOrder job.PriorityOrder               // empty is job.LowestFirst
//	DefaultPriority *int                          // nil is the database's value, or 100
//	DefaultTimeout time.Duration                  // 0 is the database's value, or a day
//	DefaultRetry *job.RetryPolicy                 // nil is the database's value, or job.DefaultRetry
//	StrictTypes bool                              // has hipq enqueue and procedures refuse types that aren't configured
//	Location *time.Location                       // of the time windows; nil is UTC
//	KeepFinished, KeepFailed time.Duration        // what purge keeps, in whole seconds; 0 is the default, DiscardAtOnce nothing
//
// The limits, the rate and the shards hold for all workers: only hipq init or admin.Queue.Reshard changes them, and until then
// workers whose options differ leave the queue out.
type Options = store.Options

// DiscardAtOnce is the retention that deletes a job in the transaction that makes it final.
const DiscardAtOnce = store.DiscardAtOnce

// Default retention.
const (
	DefaultKeepFinished = store.DefaultKeepFinished
	DefaultKeepFailed   = store.DefaultKeepFailed
)

// Errors of this package.
var (
	// ErrOptions: the options are invalid.
	ErrOptions = store.ErrOptions
	// ErrNotFound: the job doesn't exist.
	ErrNotFound = store.ErrNotFound
	// ErrNotStarted: the job has had no attempt, so there is nothing to answer.
	ErrNotStarted = store.ErrNotStarted
	// ErrOtherAttempt: the token isn't that of the job's latest attempt.
	ErrOtherAttempt = store.ErrOtherAttempt
	// ErrFinal: the job is final; for Answer, with the other result.
	ErrFinal = store.ErrFinal
	// ErrShards: the database's queue has a different number of shards than the options. It wraps schema.ErrNotMigrated. hipq
	// init or admin.Queue.Reshard applies the options.
	ErrShards = store.ErrShards
	// ErrLimits: the database's queue has another throttle limit, throttle groups or rate than the options. It is also an
	// ErrShards.
	ErrLimits = store.ErrLimits
)

// Queue is the jobs of one table. It is safe for concurrent use.
type Queue store.Queue

// store returns the queue with hipq's internal operations. A defined type doesn't inherit methods, so applications see only
// those of this package, and hipq's other packages convert.
func (q *Queue) store() *store.Queue { return (*store.Queue)(q) }

// Open checks the tables that DB.Migrate creates, and returns the queue. It returns schema.ErrNotMigrated if tables are
// missing or too old, and schema.ErrNewer if they are of a newer hipq. You may call it repeatedly.
func Open(ctx context.Context, db *schema.DB, o Options) (*Queue, error) {
	q, err := New(db, o)
	if err != nil {
		return nil, err
	}
	if err := db.Check(ctx, []schema.Queue{o.Table()}); err != nil {
		if _, remedy := schema.Diagnose(err); remedy != "" {
			err = fmt.Errorf("%w; %s", err, remedy)
		}
		return nil, fmt.Errorf("queue %s: %w", o.Name, err)
	}
	return q, nil
}

// New is Open for a program that has already checked the tables, for example by DB.Check. It doesn't use the database, which
// learns of the queue from a worker or Register. Errors are ErrOptions and schema.ErrName.
func New(db *schema.DB, o Options) (*Queue, error) {
	q, err := store.New(db, o)
	return (*Queue)(q), err
}

// Register records the queue and its configured types in the database, for commands and applications without its config.
// Workers call it at startup. It writes only changed or unreadable values, and may be repeated. If the database has other
// shards or limits, it writes nothing and returns ErrShards or ErrLimits; run hipq init.
func (q *Queue) Register(ctx context.Context) error { return q.store().Register(ctx) }

// Check returns job.ErrInvalid if the queue would refuse the job. It doesn't ask the database.
func (q *Queue) Check(j job.Params) error { return q.store().Check(j) }

// Get reads one job, up to date on all nodes of a cluster. It returns ErrNotFound if there is no such job.
func (q *Queue) Get(ctx context.Context, id int64) (*job.Job, error) {
	if err := q.store().DB().SQL.CatchUp(ctx); err != nil {
		return nil, err
	}
	return q.store().Get(ctx, q.store().DB().SQL, id, "")
}

// Wait polls quickly at first, because a job may take milliseconds, and once a second in the end.
const waitFirst, waitMost = 25 * time.Millisecond, time.Second

// Wait waits until a job is final and returns it; its Error says whether it failed. If an operator retried the job, wait for
// RetriedAs next. It returns ErrNotFound if the job doesn't exist or was discarded (see Options.KeepFinished); then only the
// activity has the result.
//
// Wait polls the job's row, finally once a second: a thousand callers cost a thousand reads by key each second. It retries
// while the database is busy or down, so only ctx bounds it; then the error is ctx's, joined with the last database error. It
// may be repeated, and is safe for concurrent use.
func (q *Queue) Wait(ctx context.Context, id int64) (*job.Job, error) {
	// leave out the data, which may be large; a missing row is gone, or not yet on this node
	query := "SELECT COALESCE((SELECT state FROM " + q.store().Table() + " WHERE id = ?), 'final')"
	for pause, trouble := waitFirst, error(nil); ; pause = min(2*pause, waitMost) {
		var state job.State
		err := q.store().DB().SQL.GetContext(ctx, &state, query, id)
		if err == nil && state == job.Final {
			var j *job.Job
			if j, err = q.Get(ctx, id); err == nil && j.Status.IsFinal() {
				return j, nil
			}
		}
		switch kind, _ := engine.Diagnose(err); {
		case ctx.Err() != nil: // ctx cut the query short
		case err != nil && kind != engine.TryLater:
			return nil, fmt.Errorf("wait for job %d of %s: %w", id, q.Name, err)
		default:
			trouble = err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for job %d of %s: %w", id, q.Name, errors.Join(ctx.Err(), trouble))
		case <-time.After(pause*3/4 + rand.N(pause/2)): // jitter keeps calls that began together apart
		}
	}
}

// Enqueue adds one job. It may be repeated if you set the Key; without a Key, the job may have been added despite an error.
func (q *Queue) Enqueue(ctx context.Context, j job.Params) (job.Added, error) {
	added, err := q.EnqueueMany(ctx, []job.Params{j})
	if err != nil {
		return job.Added{}, err
	}
	return added[0], nil
}

// EnqueueMany adds jobs in transactions of up to 500. After an error it returns the jobs that it added, a prefix of jobs. If
// the last commit's answer was lost, the next chunk may have been added too; then repeat only jobs with a Key.
func (q *Queue) EnqueueMany(ctx context.Context, jobs []job.Params) ([]job.Added, error) {
	prepared, err := q.store().Prepare(jobs)
	if err != nil {
		return nil, err
	}
	return q.inChunks(prepared, func(some []job.Params) ([]job.Added, error) { return q.store().AddInTx(ctx, some, "") })
}

// WouldEnqueue reports what EnqueueMany would do, in a transaction that it rolls back. Jobs that would be added have ID 0.
func (q *Queue) WouldEnqueue(ctx context.Context, jobs []job.Params) (would []job.Added, err error) {
	prepared, err := q.store().Prepare(jobs)
	if err != nil {
		return nil, err
	}
	rolledBack := errors.New("rolled back")
	err = q.store().DB().SQL.TxUnclocked(ctx, func(tx *engine.Tx) (err error) {
		would, err = q.inChunks(prepared, func(some []job.Params) ([]job.Added, error) { return q.store().Add(ctx, tx, some, "") })
		return cmp.Or(err, rolledBack)
	})
	if refused, ok := errors.AsType[*job.DuplicateError](err); ok && refused.Index > 0 {
		would, failed := q.WouldEnqueue(ctx, jobs[:refused.Index])
		return would, errors.Join(failed, err)
	}
	if !errors.Is(err, rolledBack) {
		return nil, err
	}
	isNew := map[int64]bool{}
	for i, a := range would {
		if isNew[a.ID] = isNew[a.ID] || !a.Duplicate; isNew[a.ID] {
			would[i].ID = 0 // also of a duplicate of a job that would be added
		}
	}
	return would, nil
}

// EnqueueTx adds jobs in your transaction; they exist once it commits. Roll it back after an error. On SQLite the transaction
// must be IMMEDIATE, for example by _txlock=immediate. If tx belongs to another database with an instance of the same name,
// the jobs go there.
func (q *Queue) EnqueueTx(ctx context.Context, tx *sql.Tx, jobs ...job.Params) ([]job.Added, error) {
	prepared, err := q.store().Prepare(jobs)
	if err != nil {
		return nil, err
	}
	if tx == nil {
		return nil, fmt.Errorf("enqueue in %s: the transaction is nil", q.Name)
	}
	joined := q.store().DB().SQL.Join(tx)
	return q.inChunks(prepared, func(some []job.Params) ([]job.Added, error) { return q.store().Add(ctx, joined, some, "") })
}

// inChunks calls add with as many jobs as the servers' packet limit and SQLite's parameter limit allow.
func (q *Queue) inChunks(jobs []job.Params, add func([]job.Params) ([]job.Added, error)) ([]job.Added, error) {
	const maxRows = 500
	added := make([]job.Added, 0, len(jobs))
	for len(jobs) > 0 {
		n, size := 1, len(jobs[0].Data)
		for n < len(jobs) && n < maxRows && size+len(jobs[n].Data) <= q.store().DB().SQL.Batch() {
			size += len(jobs[n].Data)
			n++
		}
		some, err := add(jobs[:n])
		if refused, ok := errors.AsType[*job.DuplicateError](err); ok {
			refused.Index += len(added)
		}
		if added = append(added, some...); err != nil {
			return added, fmt.Errorf("enqueue in %s: %w", q.Name, err)
		}
		jobs = jobs[n:]
	}
	return added, nil
}
