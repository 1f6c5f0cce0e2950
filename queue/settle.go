package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/schema"
)

// Settled is an attempt that has ended, and how.
type Settled struct {
	Job     *Job
	Outcome Outcome
}

// settle writes the outcomes of attempts. Each write carries the token and the attempt, so a worker that lost its lock
// changes nothing: those jobs come back in lost. Like start it may be repeated after a lost commit.
func (q *Queue) settle(ctx context.Context, tx *schema.Tx, w Worker, list []Settled) (entries []activity.Entry, lost []*Job, err error) {
	type attempt struct {
		token  string
		number int
	}
	plain := map[attempt][]Settled{}
	var others []Settled
	for _, s := range list {
		if s.Outcome.Verdict == Finished && s.Outcome.Result == "" {
			k := attempt{s.Job.Token, s.Job.Attempt}
			plain[k] = append(plain[k], s)
		} else {
			others = append(others, s)
		}
	}
	for k, group := range plain {
		settled, gone, err := q.finish(ctx, tx, w, k.token, k.number, group)
		if err != nil {
			return nil, nil, err
		}
		entries, lost = append(entries, settled...), append(lost, gone...)
	}
	for _, s := range others {
		entry, state, err := q.settleOne(ctx, tx, w, s)
		if err != nil {
			return nil, nil, err
		}
		switch state {
		case settledNow:
			entries = append(entries, entry)
		case settledLost:
			lost = append(lost, s.Job)
		}
	}
	return entries, lost, nil
}

// finish settles attempts that all ended well, in one statement.
func (q *Queue) finish(ctx context.Context, tx *schema.Tx, w Worker, token string, attempt int, group []Settled) (entries []activity.Entry, lost []*Job, err error) {
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
	if !all {
		if states, err = q.settledBy(ctx, tx, w, token, attempt, group); err != nil {
			return nil, nil, err
		}
	}
	for _, s := range group {
		switch {
		case all || states[s.Job.ID] == settledNow:
			e := q.entry(s.Job, activity.Finished)
			e.RunMS, e.Output = s.Outcome.Ran.Milliseconds(), s.Outcome.Output
			entries = append(entries, e)
		case states[s.Job.ID] == settledLost:
			lost = append(lost, s.Job)
		}
	}
	return entries, lost, nil
}

// settledState is what became of a settle.
type settledState int

const (
	settledLost    settledState = iota // the lock was lost
	settledEarlier                     // by a commit whose answer was lost; it wrote the activity too
	settledNow
)

// settledBy tells which of the jobs this very attempt has settled, and whether in this transaction.
func (q *Queue) settledBy(ctx context.Context, tx *schema.Tx, w Worker, token string, attempt int, group []Settled) (map[int64]settledState, error) {
	args := []any{w.ID, token, attempt}
	for _, s := range group {
		args = append(args, s.Job.ID)
	}
	var rows []struct {
		ID         int64
		UpdateTime schema.Time `db:"update_time"`
	}
	query := "SELECT id, update_time FROM " + q.table + " " + q.db.ByID +
		" WHERE state <> 'running' AND worker_id = ? AND lock_token = ? AND attempt = ? AND id IN " + schema.In(len(group))
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

// settleOne settles one attempt, of whatever outcome. The policy's decision needs no waiting: an error passes through
// the state error to retry or final in one write.
func (q *Queue) settleOne(ctx context.Context, tx *schema.Tx, w Worker, s Settled) (activity.Entry, settledState, error) {
	next, entry, err := q.judge(s.Job, s.Outcome, tx.Now)
	if err != nil {
		return entry, 0, err
	}
	res, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET state = ?, line = ?, error = ?, result = ?, scheduled_run_time = ?, wake_time = ?, update_time = ?"+
		" WHERE id = ? AND state = 'running' AND lock_token = ? AND attempt = ?",
		next.state, next.line, next.error, next.result, schema.At(next.scheduled), next.wake, schema.At(tx.Now),
		s.Job.ID, s.Job.Token, s.Job.Attempt)
	if err != nil {
		return entry, 0, fmt.Errorf("settle job %d: %w", s.Job.ID, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return entry, settledNow, err
	}
	states, err := q.settledBy(ctx, tx, w, s.Job.Token, s.Job.Attempt, []Settled{s})
	if err != nil || states[s.Job.ID] != settledLost {
		return entry, states[s.Job.ID], err
	}
	// settled earlier, the job may have gone on to its next attempt already; then only the activity knows
	var told bool
	err = tx.GetContext(ctx, &told, "SELECT EXISTS (SELECT 1 FROM "+q.db.Activity()+" "+q.db.Index(q.db.Activity(), "job")+
		" WHERE job_id = ? AND queue = ? AND attempt = ? AND worker_id = ? AND state IN ('finished', 'error', 'failed'))",
		s.Job.ID, q.Name, s.Job.Attempt, w.ID)
	if told {
		return entry, settledEarlier, err
	}
	return entry, settledLost, err
}
