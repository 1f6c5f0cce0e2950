package queue

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// settle writes the outcomes of attempts: it reads the jobs' rows, decides, and writes. A job that isn't any more as this
// attempt left it stays as it is: it has been answered, or settled by a commit whose answer was lost; or, if the worker was
// declared dead, its lock is lost.
func (q *Queue) settle(ctx context.Context, tx *engine.Tx, r round, first *firstRead, done *rounds.Done) (entries []activity.Entry, err error) {
	var finished []any
	var absent []rounds.Settled
	if len(first.finishing) > 0 {
		ids := make([]any, len(first.finishing))
		entries = make([]activity.Entry, 0, len(r.Settle)+r.Slots)
		for i, s := range first.finishing {
			ids[i], entries = s.Job.ID, append(entries, q.finishedEntry(s))
		}
		if err := q.discard(ctx, tx, job.StatusFinished, ids); err != nil {
			return nil, err
		}
	}
	for _, s := range first.others {
		row, ok := first.settling[s.Job.ID]
		switch {
		case !ok || !row.isOf(s):
			absent = append(absent, s)
		case row.Status == job.StatusRunning && q.isPlain(s):
			finished = append(finished, s.Job.ID)
			entries = append(entries, q.finishedEntry(s))
		default:
			entry, err := q.settleOne(ctx, tx, row, s, done)
			if err != nil {
				return nil, err
			}
			if entry != nil {
				entries = append(entries, *entry)
			}
		}
	}
	if err := q.finish(ctx, tx, finished); err != nil {
		return nil, err
	}
	return entries, q.lookForAbsent(ctx, tx, r.Worker.ID, absent, done)
}

// isPlain says that an attempt has gone well and left nothing to keep.
func (q *Queue) isPlain(s rounds.Settled) bool {
	return s.Outcome.Verdict == job.Finished && s.Outcome.Result == "" && !s.Asked && !q.async(s.Job.Type)
}

// locksMax is of how many locks one statement ends plain attempts: each is a term of its condition.
const locksMax = 100

// lock is what the attempts that one round has begun have in common, most of the time.
type lock struct {
	token   string
	attempt int
}

// plain parts the plain attempts of some locks, which can be settled by one statement, from the others.
func (q *Queue) plain(list []rounds.Settled) (plain, others []rounds.Settled) {
	locks := map[lock]bool{}
	for _, s := range list {
		l := lock{s.Job.Token, s.Job.Attempt}
		if q.isPlain(s) && (locks[l] || len(locks) < locksMax) {
			locks[l] = true
			plain = append(plain, s)
		} else {
			others = append(others, s)
		}
	}
	return plain, others
}

func (q *Queue) finishedEntry(s rounds.Settled) activity.Entry {
	e := q.entry(s.Job, activity.Finished)
	e.RunMS, e.Output = s.Outcome.Ran.Milliseconds(), s.Outcome.Output
	return e
}

// finishing is the statement that ends plain attempts, of jobs that are as these left them: it changes as many rows.
func (q *Queue) finishing(tx *engine.Tx, worker string, list []rounds.Settled) engine.Query {
	ids := map[lock][]any{}
	var locks []lock // in the order of the attempts
	for _, s := range list {
		l := lock{s.Job.Token, s.Job.Attempt}
		if ids[l] == nil {
			locks = append(locks, l)
		}
		ids[l] = append(ids[l], s.Job.ID)
	}
	now, args := tx.Stamp()
	of := make([]string, len(locks))
	for i, l := range locks {
		of[i] = "lock_token = ? AND attempt = ? AND id IN " + notAlone(len(ids[l]))
		args = append(append(args, l.token, l.attempt), ids[l]...)
	}
	return engine.Query{
		SQL: q.db.UpdateAtOnce + " " + q.table + " " + q.db.ByID + " SET status = 'finished', update_time = " + now +
			" WHERE (" + strings.Join(of, " OR ") + ") AND status = 'running' AND stopping = 0 AND worker_id = ?",
		Args: append(args, worker),
	}
}

// settling is what settle has to know of a job's row.
type settling struct {
	ID       int64
	Status   job.Status
	Attempt  int
	Token    string
	Error    string
	Wish     string
	Stopping bool
}

// isOf says whether the row is as this attempt left it.
func (row settling) isOf(s rounds.Settled) bool {
	return row.Token == s.Job.Token && row.Attempt == s.Job.Attempt && (row.Status != job.StatusRunning || !s.Asked)
}

// settling is the query for the rows of attempts that a worker has locked and started. It puts them into found.
func (q *Queue) settling(worker string, list []rounds.Settled, lock string, found map[int64]settling) engine.Query {
	args := make([]any, 0, len(list)+1)
	for _, s := range list {
		args = append(args, s.Job.ID)
	}
	query := "SELECT id, status, attempt, lock_token, error, wish, stopping <> 0 FROM " + q.table + " " + q.db.ByID +
		" WHERE id IN " + notAlone(len(list)) + " AND status IN ('running', 'answered', 'deciding') AND worker_id = ? " + lock
	return engine.Query{SQL: query, Args: append(args, worker), Scan: engine.EachRow(func(row *sql.Rows) error {
		var s settling
		err := row.Scan(&s.ID, &s.Status, &s.Attempt, &s.Token, &s.Error, &s.Wish, &s.Stopping)
		found[s.ID] = s
		return err
	})}
}

// lookForAbsent finds out about attempts whose rows settle didn't find: another transaction may hold them.
func (q *Queue) lookForAbsent(ctx context.Context, tx *engine.Tx, worker string, absent []rounds.Settled, done *rounds.Done) error {
	if len(absent) == 0 {
		return nil
	}
	rows := map[int64]settling{}
	if err := tx.Read(ctx, q.settling(worker, absent, "", rows)); err != nil {
		return fmt.Errorf("look for attempts: %w", err)
	}
	working, err := q.workers.IsWorking(ctx, tx, worker)
	if err != nil {
		return err
	}
	for _, s := range absent {
		if row, ok := rows[s.Job.ID]; ok && row.isOf(s) {
			done.Unsettled = append(done.Unsettled, s)
		} else if !working {
			done.Lost = append(done.Lost, s.Job)
		}
	}
	return nil
}

// finish ends attempts that went well and left nothing to keep.
func (q *Queue) finish(ctx context.Context, tx *engine.Tx, ids []any) error {
	if len(ids) == 0 {
		return nil
	}
	err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET status = 'finished', update_time = ? WHERE id IN "+engine.In(len(ids)),
		append([]any{engine.At(tx.Now)}, ids...)...)
	if err != nil {
		return fmt.Errorf("finish jobs: %w", err)
	}
	return q.discard(ctx, tx, job.StatusFinished, ids)
}

// settleOne settles one attempt, of whatever outcome. The policy's decision needs no waiting: an error passes through
// the state error to retry or final in one write. Without an entry the attempt isn't over yet.
func (q *Queue) settleOne(ctx context.Context, tx *engine.Tx, row settling, s rounds.Settled, done *rounds.Done) (*activity.Entry, error) {
	o := s.Outcome
	if o.Verdict == job.Finished && q.async(s.Job.Type) {
		o.Verdict = job.Sent
	}
	switch {
	case row.Stopping && (o.Verdict != job.Finished || row.Status != job.StatusRunning): // work that was only sent is not done
		o = job.Outcome{Verdict: job.Stopped, Error: job.Cancelled, Output: o.Output, Ran: o.Ran}
		s.Decision, s.Note = nil, "" // whatever a retry handler said meanwhile
	case row.Status != job.StatusRunning && !s.Asked:
		// by an answer while the handler ran, whose own word doesn't count then; or by a commit whose answer was lost
		failed := job.Job{Error: row.Error, Wish: row.Wish}
		ran, output := o.Ran, o.Output
		o = failed.Outcome(tx.Now)
		o.Ran, o.Output = ran, output
	}
	s.Outcome = o
	if o.Verdict == job.Sent {
		return nil, q.send(ctx, tx, s.Job, o)
	}
	if !s.Asked && !s.NotBegun && o.Verdict != job.Interrupted { // where an attempt ends: a decision about it leaves them
		s.Job.Losses = 0
	}
	if o.Verdict.IsError() && s.Decider != rounds.Policy && !s.Asked {
		if s.Decider == rounds.OwnHandler {
			s.Asked = true
			done.Resting = append(done.Resting, s)
			return nil, q.rest(ctx, tx, s.Job, o, o.Wish(), job.StatusDeciding)
		}
		return nil, q.rest(ctx, tx, s.Job, o, o.Wish(), job.StatusUndecided)
	}
	next, entry := q.conclude(s.Job, o, s.Decision, q.policy(s.Job.Type), tx.Now)
	if s.Note != "" {
		entry.Error += " (" + s.Note + ")"
	}
	return &entry, q.write(ctx, tx, s.Job, next)
}

// conclude says what an attempt's outcome makes of its job, and the activity that tells of it. d is a retry handler's
// decision; nil leaves it to the policy p.
func (q *Queue) conclude(j *job.Job, o job.Outcome, d *job.Decision, p job.RetryPolicy, now time.Time) (rules.Next, activity.Entry) {
	next := rules.After(j, o, d, p, q.Location, now, rand.Float64())
	entry := q.entry(j, activity.Finished)
	entry.RunMS, entry.Output = o.Ran.Milliseconds(), o.Output
	switch {
	case !next.Status.IsFinal():
		entry.State = activity.Error
	case next.Status != job.StatusFinished:
		entry.State = activity.Failed
	}
	if entry.State != activity.Finished {
		entry.Error = next.Error
	}
	return next, entry
}

func (q *Queue) policy(jobType string) job.RetryPolicy {
	if t, ok := q.configured[jobType]; ok {
		return t.Retry
	}
	return q.defaultType(jobType).Retry
}

// async says whether an answer from outside ends the jobs of a type.
func (q *Queue) async(jobType string) bool { return q.configured[jobType].Async }

// send leaves a job running, without a lock, for an answer from outside or its timeout. The output stays in its row until
// the attempt has its outcome, as it does while a retry handler is to decide.
func (q *Queue) send(ctx context.Context, tx *engine.Tx, j *job.Job, o job.Outcome) error {
	err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET status = 'awaiting', result = ?, output = ?, wake_time = ?, update_time = ? WHERE id = ?",
		orNone(o.Result), orNone(o.Output), engine.At(j.StartTime.Add(j.Timeout)), engine.At(tx.Now), j.ID)
	if err != nil {
		return fmt.Errorf("leave job %d to its answer: %w", j.ID, err)
	}
	return nil
}

// rest leaves a job for a retry handler, in a status of the state error. wish is what is kept of the outcome besides its error.
func (q *Queue) rest(ctx context.Context, tx *engine.Tx, j *job.Job, o job.Outcome, wish string, status job.Status) error {
	err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET status = ?, error = ?, wish = ?, output = ?,"+
		" losses = ?, worker_id = ?, wake_time = NULL, update_time = ? WHERE id = ?", status, o.Reason(), wish, orNone(o.Output), j.Losses, j.WorkerID, engine.At(tx.Now), j.ID)
	if err != nil {
		return fmt.Errorf("leave job %d to its retry handler: %w", j.ID, err)
	}
	return nil
}

// write writes down what a job becomes. Its row is locked, and what it was has been checked.
func (q *Queue) write(ctx context.Context, tx *engine.Tx, j *job.Job, n rules.Next) error {
	set, args := "", []any{n.Status, n.Error, n.Result, engine.At(n.Scheduled), engine.At(n.Wake), engine.At(tx.Now), n.Interrupts, j.Losses, j.WorkerID}
	if n.Data != nil {
		// also where these options know no shards: then it is misplaced until a worker moves it, and not in that of its former group
		d := q.division()
		place := d.Place(d.Of(j.Type, j.Key, j.ShardKey, []byte(*n.Data)))
		set, args = set+", job_data = ?, throttle_group = 'NONE', shard = ?", append(args, *n.Data, place)
	}
	if n.Priority != nil {
		set, args = set+", priority = ?", append(args, *n.Priority)
	}
	err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET status = ?, error = ?, result = ?, scheduled_run_time = ?, wake_time = ?, update_time = ?, wish = 'NONE',"+
		" interrupts = ?, losses = ?, worker_id = ?, output = 'NONE'"+set+
		" WHERE id = ? AND status NOT IN ('finished', 'failed', 'closed')", append(args, j.ID)...)
	if err != nil {
		return fmt.Errorf("settle job %d: %w", j.ID, err)
	}
	return q.discard(ctx, tx, n.Status, []any{j.ID})
}

// discard deletes jobs that have just become final, if the queue doesn't keep such.
func (q *Queue) discard(ctx context.Context, tx *engine.Tx, status job.Status, ids []any) error {
	failed := status == job.StatusFailed || status == job.StatusClosed
	if (status != job.StatusFinished || q.KeepFinished >= 0) && (!failed || q.KeepFailed >= 0) {
		return nil
	}
	statement, args := q.deleteFinal(status, ids)
	if err := tx.Write(ctx, statement, args...); err != nil {
		return fmt.Errorf("discard jobs: %w", err)
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return job.None
	}
	return s
}
