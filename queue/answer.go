package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// Answer reports from outside how a job's attempt ended.
type Answer struct {
	// Type and Key name the job: the one of that type and key that isn't final.
	Type, Key string
	// Token, if set, is the AttemptToken of the answered attempt; the answer settles no other attempt.
	Token string
	// Verdict is Finished, Failed (no retry), TryAgain: the attempt failed, and a worker takes the retry decision; or Released:
	// the job runs again later, without an error.
	Verdict job.Verdict
	// RetryAfter is the delay with TryAgain and Released; 0 leaves it to the retry policy.
	RetryAfter time.Duration
	// Count says that a Released attempt counts for the retry policy; in the last one, the job fails.
	Count bool
	// Result is any text or JSON up to job.MaxDataBytes. Error is the reason of a failure.
	Result, Error string
	// DryRun reports what the answer would do without changing anything.
	DryRun bool
}

// Answered is the effect of an answer.
type Answered struct {
	// Job is the job's state after the answer, or the present state in a dry run.
	Job *job.Job
	// Changed says whether the answer changed the job, or would in a dry run.
	Changed bool
}

// Answer settles a started job, asynchronous or not, that is running or waiting for its next attempt. If its handler still
// runs, the job keeps its key and weight until the handler ends, and the handler's outcome is ignored.
//
// It may be repeated. An answer changes nothing if the newest job of this key already ended with the same result, or if the
// attempt has already failed. Errors are ErrFinal, ErrNotStarted and ErrOtherAttempt, with the job in Answered; ErrNotFound;
// and job.ErrInvalid.
func (q *Queue) Answer(ctx context.Context, a Answer) (Answered, error) {
	var done Answered
	err := a.check()
	if err == nil {
		err = q.store().DB().SQL.CatchUp(ctx) // the attempt may have begun on another node
	}
	if err == nil {
		var earlier Answered // what an earlier try of this transaction did, if its commit is uncertain
		err = q.store().DB().SQL.Tx(ctx, func(tx *engine.Tx) (err error) {
			if done, err = q.answer(ctx, tx, a, earlier); done.Changed {
				earlier = done
			}
			return err
		})
	}
	return done, texts.Wrap(err, "answer for %s %q in %s", a.Type, a.Key, q.Name)
}

func (a Answer) check() error {
	switch {
	case !slices.Contains([]job.Verdict{job.Finished, job.Failed, job.TryAgain, job.Released}, a.Verdict):
		return texts.Errorf(job.ErrInvalid, "%q is not a verdict of an answer", a.Verdict)
	case a.RetryAfter < 0 || a.RetryAfter > 0 && !a.again() || a.Count && a.Verdict != job.Released:
		return texts.Errorf(job.ErrInvalid, "a delay goes with retry and release, and count with release")
	case len(a.Result) > job.MaxDataBytes || len(a.Error) > job.MaxDataBytes:
		return texts.Errorf(job.ErrInvalid, "its text may have at most %d bytes", job.MaxDataBytes)
	case !utf8.ValidString(a.Result) || !utf8.ValidString(a.Error):
		return texts.Errorf(job.ErrInvalid, "its text is not valid UTF-8")
	}
	return nil
}

func (a Answer) outcome(j *job.Job, now time.Time) job.Outcome {
	// keep the result and output that the handler gave when it sent the work elsewhere
	o := job.Outcome{
		Verdict: a.Verdict, Error: a.Error, Result: cmp.Or(a.Result, j.Result), Output: j.Output, RetryAfter: a.RetryAfter, Count: a.Count,
		Ran: activity.NoRun * time.Millisecond,
	}
	if j.State() == job.Running {
		o.Ran = j.Ran(now)
	}
	if o.Error == "" && o.Verdict != job.Finished {
		o.Error = "answered: " + string(o.Verdict)
	}
	return o
}

// again says whether the job runs again after this answer, if the retry policy allows it.
func (a Answer) again() bool { return a.Verdict == job.TryAgain || a.Verdict == job.Released }

// changes reports whether the answer would change the job, or why it is refused.
func (a Answer) changes(j *job.Job) (bool, error) {
	answered := j.Status == job.StatusAnswered
	ends := j.Status.IsFinal() || answered && (j.Error == job.None || j.RetryOverride == job.Outcome{Verdict: job.Failed}.RetryOverride())
	switch {
	case ends && (j.Error == job.None) != (a.Verdict == job.Finished):
		return false, store.ErrFinal
	case ends:
		return false, nil
	case j.Invalid != nil:
		return false, j.Invalid
	case j.Attempt == 0:
		return false, store.ErrNotStarted
	case a.Token != "" && a.Token != j.AttemptToken:
		return false, store.ErrOtherAttempt
	case (answered || j.State() != job.Running) && a.again():
		return false, nil // that attempt has already ended and the job will run again
	}
	return true, nil
}

func (q *Queue) answer(ctx context.Context, tx *engine.Tx, a Answer, earlier Answered) (Answered, error) {
	var j *job.Job
	var err error
	again := tx.MayBeDone && earlier.Changed
	if again { // the key may belong to another job by now
		j, err = q.store().Get(ctx, tx, earlier.Job.ID, q.store().DB().SQL.ForUpdate)
	} else {
		j, err = q.byKey(ctx, tx, a.Type, a.Key)
	}
	switch {
	case again && errors.Is(err, store.ErrNotFound): // the earlier try ended and discarded it
		return earlier, nil
	case err != nil:
		return Answered{}, err
	case again && a.again() && j.Attempt != earlier.Job.Attempt:
		return Answered{Job: j}, nil // the attempt is over and will be retried
	}
	changes, err := a.changes(j)
	if err != nil || !changes || a.DryRun {
		return Answered{Job: j, Changed: changes || again && err == nil && isLeftBy(j, earlier.Job)}, err
	}
	j.Losses = 0
	o := a.outcome(j, tx.Now)
	if err := q.apply(ctx, tx, j, o); err != nil {
		return Answered{}, err
	}
	after, err := q.store().Get(ctx, tx, j.ID, "")
	if errors.Is(err, store.ErrNotFound) {
		return Answered{Job: discarded(j, o), Changed: true}, nil
	}
	return Answered{Job: after, Changed: true}, err
}

func (q *Queue) apply(ctx context.Context, tx *engine.Tx, j *job.Job, o job.Outcome) error {
	if j.Status == job.StatusRunning || j.Status == job.StatusAnswered {
		return q.store().KeepAnswer(ctx, tx, j, o)
	}
	j.WorkerID = job.None
	t, err := q.store().TypeOf(ctx, tx, j.Type)
	if err != nil {
		return err
	}
	// only a worker knows whether there is a retry handler
	if _, ok := q.store().Configured(j.Type); o.Verdict == job.TryAgain && (ok || t.RetryHandler) {
		return q.store().Leave(ctx, tx, j, o, job.StatusUndecided)
	}
	entry, _, err := q.store().End(ctx, tx, j, o, store.Decided{})
	if err != nil {
		return err
	}
	return activity.Write(ctx, tx, q.store().DB(), []activity.Entry{entry})
}

// discarded returns a job that the queue doesn't keep, with the outcome applied.
func discarded(j *job.Job, o job.Outcome) *job.Job {
	ended := *j
	ended.Status, ended.Error, ended.Result = job.StatusFinished, cmp.Or(o.Error, job.None), cmp.Or(o.Result, job.None)
	if o.Verdict != job.Finished {
		ended.Status = job.StatusFailed
	}
	return &ended
}

// isLeftBy says whether a job is as left by an earlier try of the transaction, whose commit is uncertain.
func isLeftBy(j, earlier *job.Job) bool {
	return j.Error == earlier.Error && (j.Error != job.None || j.WorkerID == earlier.WorkerID && j.Result == earlier.Result)
}

// byKey finds and locks the live job of a type and key, or else the newest final one.
func (q *Queue) byKey(ctx context.Context, tx *engine.Tx, jobType, key string) (*job.Job, error) {
	for _, which := range []string{"live = 1", "live IS NULL"} {
		var id *int64
		err := tx.GetContext(ctx, &id, "SELECT MAX(id) FROM "+q.store().Table()+" "+q.store().Index("live")+" WHERE job_type = ? AND job_key = ? AND "+which, jobType, key)
		if err != nil {
			return nil, err
		}
		if id != nil {
			return q.store().Get(ctx, tx, *id, q.store().DB().SQL.ForUpdate)
		}
	}
	return nil, store.ErrNotFound
}
