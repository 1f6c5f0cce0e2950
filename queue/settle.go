package queue

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/roster"
	"github.com/hipq/hipq/schema"
)

// Settled is an attempt that has ended, and how.
type Settled struct {
	Job     *job.Job
	Outcome job.Outcome
	// Decide says who takes the retry decision, if the outcome is an error.
	Decide Decide
	// Decided says that a retry handler has been asked about the job, which rested in the state error, and Decision what it
	// said; nil is that the policy decides, and Note why.
	Decided  bool
	Decision *job.Decision
	Note     string
}

// Decide says who takes a retry decision.
type Decide int

// Who decides.
const (
	// ByPolicy: the policy, in the transaction that settles the attempt.
	ByPolicy Decide = iota
	// ByHandler: a retry handler of this worker. The job rests in the state error, under the worker's lock, until then.
	ByHandler
	// ByAnother: a retry handler of whatever worker comes next.
	ByAnother
)

// settle writes the outcomes of attempts. Each write carries the token and the attempt, so a worker that lost its lock
// changes nothing: those jobs come back in r.Lost. Like start it may be repeated after a lost commit.
func (q *Queue) settle(ctx context.Context, tx *schema.Tx, w roster.Worker, list []Settled, r *Round) (entries []activity.Entry, err error) {
	type attempt struct {
		token  string
		number int
	}
	plain := map[attempt][]Settled{}
	var others []Settled
	for _, s := range list {
		if s.Outcome.Verdict == job.Finished && s.Outcome.Result == "" && !q.async(s.Job.Type) {
			k := attempt{s.Job.Token, s.Job.Attempt}
			plain[k] = append(plain[k], s)
		} else {
			others = append(others, s)
		}
	}
	for k, group := range plain {
		settled, rest, err := q.finish(ctx, tx, w, k.token, k.number, group)
		if err != nil {
			return nil, err
		}
		entries, others = append(entries, settled...), append(others, rest...)
	}
	for _, s := range others {
		entry, state, err := q.settleOne(ctx, tx, w, &s)
		if err != nil {
			return nil, err
		}
		switch state {
		case settledNow:
			entries = append(entries, entry)
		case settledLost:
			r.Lost = append(r.Lost, s.Job)
		case settledToRest:
			s.Decided = true
			r.Resting = append(r.Resting, s)
		}
	}
	return entries, nil
}

// finish settles attempts that all ended well, in one statement, and gives back those that it didn't find as they had been.
func (q *Queue) finish(ctx context.Context, tx *schema.Tx, w roster.Worker, token string, attempt int, group []Settled) (entries []activity.Entry, rest []Settled, err error) {
	args := []any{schema.At(tx.Now), token, attempt}
	for _, s := range group {
		args = append(args, s.Job.ID)
	}
	res, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET state = 'final', line = 'finished', update_time = ?"+
		" WHERE state = 'running' AND lock_token = ? AND attempt = ? AND id IN "+schema.In(len(group)), args...)
	if err != nil {
		return nil, nil, fmt.Errorf("finish jobs: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return nil, nil, fmt.Errorf("finish jobs: %w", err)
	}
	all, states := int(n) == len(group), map[int64]settledState{}
	if !all && n > 0 {
		if states, err = q.settledBy(ctx, tx, w, token, attempt, group); err != nil {
			return nil, nil, err
		}
	}
	if err := q.discard(ctx, tx, job.LineFinished, args[3:]); err != nil {
		return nil, nil, err
	}
	for _, s := range group {
		if !all && states[s.Job.ID] != settledNow {
			rest = append(rest, s)
			continue
		}
		e := q.entry(s.Job, activity.Finished)
		e.RunMS, e.Output = s.Outcome.Ran.Milliseconds(), s.Outcome.Output
		entries = append(entries, e)
	}
	return entries, rest, nil
}

// settledState is what became of a settle.
type settledState int

const (
	settledLost    settledState = iota // the lock was lost
	settledEarlier                     // by a commit whose answer was lost; it wrote the activity too
	settledNow
	settledQuietly // the attempt goes on, or another takes its decision: no activity yet
	settledToRest  // this worker's retry handler is to be asked: no activity yet
)

// settledBy tells which of the jobs this very attempt has settled, and whether in this transaction.
func (q *Queue) settledBy(ctx context.Context, tx *schema.Tx, w roster.Worker, token string, attempt int, group []Settled) (map[int64]settledState, error) {
	args := []any{w.ID, token, attempt}
	for _, s := range group {
		args = append(args, s.Job.ID)
	}
	var rows []struct {
		ID         int64
		UpdateTime schema.Time `db:"update_time"`
	}
	query := "SELECT id, update_time FROM " + q.table + " " + q.db.ByID +
		" WHERE (state <> 'running' OR line = 'waiting') AND worker_id = ? AND lock_token = ? AND attempt = ? AND id IN " + schema.In(len(group))
	if err := tx.SelectContext(ctx, &rows, query, args...); err != nil {
		return nil, fmt.Errorf("look up settled jobs: %w", err)
	}
	states := make(map[int64]settledState, len(rows))
	for _, r := range rows {
		if states[r.ID] = settledEarlier; r.UpdateTime.Equal(tx.Now) {
			states[r.ID] = settledNow
		}
	}
	return states, nil
}

// told says whether the activity has the attempt's outcome already, by this worker or by an answer from outside. The job
// itself may have gone on to its next attempt, or be gone.
func (q *Queue) told(ctx context.Context, tx *schema.Tx, w roster.Worker, j *job.Job) (told bool, err error) {
	err = tx.GetContext(ctx, &told, "SELECT EXISTS (SELECT 1 FROM "+q.db.Activity()+" "+q.db.Index(q.db.Activity(), "job")+
		" WHERE job_id = ? AND queue = ? AND attempt = ? AND worker_id IN (?, 'NONE') AND state IN ('finished', 'error', 'failed'))",
		j.ID, q.Name, j.Attempt, w.ID)
	if err != nil {
		return false, fmt.Errorf("look up the outcome of job %d: %w", j.ID, err)
	}
	return told, nil
}

// settleOne settles one attempt, of whatever outcome. The policy's decision needs no waiting: an error passes through
// the state error to retry or final in one write.
func (q *Queue) settleOne(ctx context.Context, tx *schema.Tx, w roster.Worker, s *Settled) (entry activity.Entry, state settledState, err error) {
	var rows []struct {
		State    job.State
		Error    string
		Wish     string
		Stopping bool
	}
	query := "SELECT state, error, wish, stopping FROM " + q.table + " " + q.db.ByID +
		" WHERE id = ? AND line = 'locked' AND state IN ('running', 'error') AND lock_token = ? AND attempt = ? AND worker_id = ? " + q.db.ForUpdate
	if err := tx.SelectContext(ctx, &rows, query, s.Job.ID, s.Job.Token, s.Job.Attempt, w.ID); err != nil {
		return entry, 0, fmt.Errorf("settle job %d: %w", s.Job.ID, err)
	}
	if len(rows) == 0 || s.Decided && rows[0].State == job.Running {
		return q.settledBefore(ctx, tx, w, s)
	}
	row, o := rows[0], s.Outcome
	switch {
	case row.Stopping && (o.Verdict != job.Finished || row.State == job.Error):
		o = job.Outcome{Verdict: job.Stopped, Error: job.Cancelled, Output: o.Output, Ran: o.Ran}
		s.Decision, s.Note = nil, "" // whatever a retry handler said meanwhile
	case row.State == job.Error && !s.Decided:
		// by an answer while the handler ran, whose own word doesn't count then; or by a commit whose answer was lost
		failed := job.Job{Error: row.Error, Wish: row.Wish}
		ran, output := o.Ran, o.Output
		o = failed.Outcome(tx.Now)
		o.Ran, o.Output = ran, output
	case o.Verdict == job.Finished && q.async(s.Job.Type):
		o.Verdict = job.Sent
	}
	s.Outcome = o
	switch {
	case o.Verdict == job.Sent:
		return entry, settledQuietly, q.send(ctx, tx, s.Job, o)
	case o.Verdict.IsError() && s.Decide != ByPolicy && !s.Decided:
		if state = settledToRest; s.Decide == ByAnother {
			state = settledQuietly
		}
		return entry, state, q.rest(ctx, tx, s.Job, o, s.Decide)
	}
	next, entry, err := q.judge(s.Job, o, s.Decision, tx.Now)
	if err != nil {
		return entry, 0, err
	}
	if s.Note != "" {
		entry.Error += " (" + s.Note + ")"
	}
	return entry, settledNow, q.write(ctx, tx, s.Job.ID, next)
}

// settledBefore finds out what became of an attempt that is not this worker's to settle any more.
func (q *Queue) settledBefore(ctx context.Context, tx *schema.Tx, w roster.Worker, s *Settled) (entry activity.Entry, state settledState, err error) {
	states, err := q.settledBy(ctx, tx, w, s.Job.Token, s.Job.Attempt, []Settled{*s})
	if err != nil {
		return entry, 0, err
	}
	if states[s.Job.ID] != settledLost {
		return entry, settledEarlier, nil // though the clock may not have moved since
	}
	told, err := q.told(ctx, tx, w, s.Job)
	if told {
		state = settledEarlier
	}
	return entry, state, err
}

// send leaves a job running, without a lock, for an answer from outside or its timeout.
func (q *Queue) send(ctx context.Context, tx *schema.Tx, j *job.Job, o job.Outcome) error {
	_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET line = 'waiting', result = ?, wake_time = ?, update_time = ? WHERE id = ?",
		cmp.Or(o.Result, job.None), schema.At(j.StartTime.Add(j.Timeout)), schema.At(tx.Now), j.ID)
	if err != nil {
		return fmt.Errorf("leave job %d to its answer: %w", j.ID, err)
	}
	return nil
}

// rest leaves a job in the state error for a retry handler.
func (q *Queue) rest(ctx context.Context, tx *schema.Tx, j *job.Job, o job.Outcome, by Decide) error {
	if err := job.CheckTransition(job.Running, job.Error); err != nil {
		return err
	}
	line := job.LineLocked
	if by == ByAnother {
		line = job.LineError
	}
	_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET state = 'error', line = ?, error = ?, wish = ?, wake_time = NULL, update_time = ? WHERE id = ?",
		line, o.Reason(), o.Wish(), schema.At(tx.Now), j.ID)
	if err != nil {
		return fmt.Errorf("leave job %d to its retry handler: %w", j.ID, err)
	}
	return nil
}

// write writes down what a job becomes. Its row is locked, and what it was has been checked.
func (q *Queue) write(ctx context.Context, tx *schema.Tx, id int64, n job.Next) error {
	set, args := "", []any{n.State, n.Line, n.Error, n.Result, schema.At(n.Scheduled), schema.At(n.Wake), schema.At(tx.Now)}
	if n.Data != nil {
		set, args = set+", job_data = ?, throttle_group = 'NONE'", append(args, *n.Data)
	}
	if n.Priority != nil {
		set, args = set+", priority = ?", append(args, *n.Priority)
	}
	res, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET state = ?, line = ?, error = ?, result = ?, scheduled_run_time = ?, wake_time = ?, update_time = ?, wish = 'NONE'"+set+
		" WHERE id = ? AND state <> 'final'", append(args, id)...)
	if err == nil {
		err = mustHit(res, 1)
	}
	if err != nil {
		return fmt.Errorf("settle job %d: %w", id, err)
	}
	return q.discard(ctx, tx, n.Line, []any{id})
}

// discard deletes jobs that have just become final, if the queue doesn't keep such.
func (q *Queue) discard(ctx context.Context, tx *schema.Tx, line job.Line, ids []any) error {
	if (line != job.LineFinished || q.KeepFinished >= 0) && (line != job.LineFailed || q.KeepFailed >= 0) {
		return nil
	}
	if _, err := q.deleteFinal(ctx, tx, line, ids); err != nil {
		return fmt.Errorf("discard jobs: %w", err)
	}
	return nil
}

// async says whether an answer from outside ends the jobs of a type.
func (q *Queue) async(jobType string) bool { return q.configured[jobType].Async }
