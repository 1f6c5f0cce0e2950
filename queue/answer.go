package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Why an answer settles no job.
var (
	// ErrNotStarted: the job has not been tried yet, so there is nothing to answer.
	ErrNotStarted = errors.New("the job has not been started")
	// ErrOtherAttempt: the token is not that of the job's latest attempt.
	ErrOtherAttempt = errors.New("the token is of another attempt")
)

// Answer is word from outside that the work of a job is done, or has failed.
type Answer struct {
	// Type and Key name the job: the one of this type and key that is not final.
	Type, Key string
	// Token, if not empty, is that of the attempt that is answered: no other is settled.
	Token string
	// Verdict is Finished, Failed (for good), or TryAgain: the attempt has failed, and the retry decision follows, by the
	// worker whose handler still runs when that has ended, else by the next that has a handler for the type.
	Verdict job.Verdict
	// Result is kept with the job: any text or JSON, at most job.MaxDataBytes long. Error says what went wrong.
	Result, Error string
}

// Answered is what an answer did.
type Answered struct {
	// Job is as it is now.
	Job *job.Job
	// Changed says whether the answer changed anything: an error of an attempt that has failed already changes nothing.
	Changed bool
}

// Answer settles the job that the answer is for, if it has been started: whether it is asynchronous or not, still running
// or already waiting for its next attempt. What a handler that is still running says later is ignored.
//
// It may be repeated: ErrFinal if the job (the newest of this key) is final already, ErrNotFound if there has been none,
// ErrNotStarted, ErrOtherAttempt, job.ErrInvalid.
func (q *Queue) Answer(ctx context.Context, a Answer) (Answered, error) {
	var done Answered
	err := a.check()
	if err == nil {
		err = q.db.Tx(ctx, func(tx *schema.Tx) (err error) {
			done, err = q.answer(ctx, tx, a)
			return err
		})
	}
	if err != nil {
		return done, fmt.Errorf("answer for %s %q in %s: %w", a.Type, a.Key, q.Name, err)
	}
	return done, nil
}

// answerError is the job.ErrInvalid of an answer.
type answerError string

func (e answerError) Error() string { return string(e) }

// Is makes it job.ErrInvalid.
func (e answerError) Is(target error) bool { return target == job.ErrInvalid }

func (a Answer) check() error {
	switch {
	case a.Verdict != job.Finished && a.Verdict != job.Failed && a.Verdict != job.TryAgain:
		return answerError(fmt.Sprintf("%q is no verdict of an answer", a.Verdict))
	case len(a.Result) > job.MaxDataBytes || len(a.Error) > job.MaxDataBytes:
		return answerError(fmt.Sprintf("its text may have %d bytes at most", job.MaxDataBytes))
	case !utf8.ValidString(a.Result) || !utf8.ValidString(a.Error):
		return answerError("its text is not valid UTF-8")
	}
	return nil
}

func (q *Queue) answer(ctx context.Context, tx *schema.Tx, a Answer) (Answered, error) {
	j, err := q.byKey(ctx, tx, a.Type, a.Key)
	if err != nil {
		return Answered{}, err
	}
	done := Answered{Job: j}
	switch {
	case j.State == job.Final:
		return done, ErrFinal
	case j.Flaw != nil:
		return done, j.Flaw
	case j.Attempt == 0:
		return done, ErrNotStarted
	case a.Token != "" && a.Token != j.AttemptToken:
		return done, ErrOtherAttempt
	case j.State != job.Running && a.Verdict == job.TryAgain:
		return done, nil // that attempt has failed, and is being tried again
	}
	o := job.Outcome{Verdict: a.Verdict, Result: a.Result, Error: a.Error}
	if j.State == job.Running {
		o.Ran = j.Ran(tx.Now)
	}
	if o.Error == "" && o.Verdict != job.Finished {
		o.Error = "answered: " + string(o.Verdict)
	}
	if o.Result == "" {
		o.Result = j.Result // what the handler gave when it had sent the work
	}
	done.Changed = true
	switch {
	case a.Verdict != job.TryAgain:
		err = q.settleAnswered(ctx, tx, j, o)
	case j.Line == job.LineLocked:
		// its worker keeps it, for the next attempt must not begin beside this one
		if err := q.rest(ctx, tx, j, o, job.LineLocked); err != nil {
			return done, err
		}
		done.Job, err = q.get(ctx, tx, j.ID, "")
		return done, err
	default:
		err = q.rest(ctx, tx, j, o, job.LineError)
	}
	if err != nil {
		return done, err
	}
	// nobody's from now on: so the worker that may still run it learns that its word doesn't count
	if _, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET worker_id = 'NONE' WHERE id = ?", j.ID); err != nil {
		return done, err
	}
	after, err := q.get(ctx, tx, j.ID, "")
	if errors.Is(err, ErrNotFound) { // discarded
		j.State, j.Error, j.Result = job.Final, cmp.Or(o.Error, job.None), cmp.Or(o.Result, job.None)
		return done, nil
	}
	done.Job = after
	return done, err
}

// settleAnswered ends an attempt, or what is left of it, by an answer.
func (q *Queue) settleAnswered(ctx context.Context, tx *schema.Tx, j *job.Job, o job.Outcome) error {
	next, entry, err := q.conclude(j, o, nil, tx.Now)
	if err != nil {
		return err
	}
	if err := job.CheckTransition(j.State, job.Final); err != nil {
		return err
	}
	if err := q.write(ctx, tx, j.ID, next); err != nil {
		return err
	}
	return q.log.Record(ctx, tx, []activity.Entry{entry})
}

// byKey finds the job of a type and key that is not final, or else the newest that is.
func (q *Queue) byKey(ctx context.Context, tx *schema.Tx, jobType, key string) (*job.Job, error) {
	for _, which := range []string{"live = 1", "live IS NULL"} {
		var id *int64
		err := tx.GetContext(ctx, &id, "SELECT MAX(id) FROM "+q.table+" "+q.index("live")+" WHERE job_type = ? AND job_key = ? AND "+which, jobType, key)
		if err != nil {
			return nil, err
		}
		if id != nil {
			return q.get(ctx, tx, *id, q.db.ForUpdate)
		}
	}
	return nil, ErrNotFound
}
