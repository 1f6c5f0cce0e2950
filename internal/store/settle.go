package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// settle writes the outcomes of attempts: it reads the jobs' rows, decides, and writes. An answered job ends as the answer
// says. If a row isn't as the attempt left it, settle leaves it alone: an earlier commit without a reply settled the job, or
// the worker was declared dead and lost its lock.
func (q *Queue) settle(ctx context.Context, tx *engine.Tx, r Round, first *firstRead, done *Done) error {
	var entries []activity.Entry
	var plain, absent []Settled
	for _, s := range first.others {
		row, ok := first.settling[s.Job.ID]
		switch {
		case !ok || !row.isOf(s):
			absent = append(absent, s)
		case row.Status == job.StatusRunning && !row.Stopping && q.isPlain(s):
			plain = append(plain, s)
		default:
			some, err := q.settleOne(ctx, tx, row, s, done)
			if err != nil {
				return err
			}
			entries = append(entries, some...)
		}
	}
	for some := range slices.Chunk(plain, locksMax) {
		finishing := q.finishing(tx, "UPDATE"+q.db.SQL.OrFail, r.Worker.ID, some) // it waits for locking readers
		if err := tx.Write(ctx, finishing.SQL, finishing.Args...); err != nil {
			return fmt.Errorf("finish jobs: %w", err)
		}
	}
	finished := slices.Concat(first.finishing, plain)
	var silent []Settled
	for _, s := range finished {
		if s.Outcome.Output == "" {
			silent = append(silent, s)
			continue
		}
		e := q.Entry(s.Job, activity.Finished)
		e.RunMS, e.Output = s.Outcome.Ran.Milliseconds(), s.Outcome.Output
		entries = append(entries, e)
	}
	if err := q.logRows(ctx, tx, r.Worker, activity.Finished, ran(silent)); err != nil {
		return err
	}
	if err := q.logAs(ctx, tx, r.Worker, entries); err != nil {
		return err
	}
	if err := q.Discard(ctx, tx, job.StatusFinished, Args(finished, func(s Settled) any { return s.Job.ID })); err != nil {
		return err
	}
	return q.lookForAbsent(ctx, tx, r.Worker.ID, absent, done)
}

// ran selects the rows of attempts, with their durations. Many short ones took 0 ms.
func ran(list []Settled) activity.JobRows {
	rows := activity.JobRows{IDs: make([]any, len(list))}
	var cases strings.Builder
	for i, s := range list {
		rows.IDs[i] = s.Job.ID
		if ms := s.Outcome.Ran.Milliseconds(); ms > 0 {
			fmt.Fprintf(&cases, " WHEN %d THEN %d", s.Job.ID, ms)
		}
	}
	if cases.Len() > 0 {
		rows.Run = "CASE id" + cases.String() + " ELSE 0 END"
	}
	return rows
}

// isPlain says that an attempt succeeded and left nothing to store in the job's row.
func (q *Queue) isPlain(s Settled) bool {
	o := s.Outcome
	return o.Verdict == job.Finished && o.Result == "" && !s.Asked && !q.async(s.Job.Type)
}

// locksMax bounds the locks for which one statement ends plain attempts: each is a term of its condition.
const locksMax = 100

// lock is usually shared by all attempts that one round started.
type lock struct {
	token   string
	attempt int
}

// plain separates the plain attempts of some locks, which one statement can settle, from the others.
func (q *Queue) plain(list []Settled) (plain, others []Settled) {
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

// finishing is the UPDATE that ends plain attempts whose rows are unchanged; its row count tells how many.
func (q *Queue) finishing(tx *engine.Tx, update, worker string, list []Settled) engine.Query {
	ids := map[lock][]any{}
	for _, s := range list {
		l := lock{s.Job.Token, s.Job.Attempt}
		ids[l] = append(ids[l], s.Job.ID)
	}
	now, args := tx.Stamp()
	var of []string
	for l, ids := range ids {
		of = append(of, "lock_token = ? AND attempt = ? AND id IN "+notAlone(len(ids)))
		args = append(append(args, l.token, l.attempt), ids...)
	}
	return engine.Query{
		SQL: update + " " + q.table + " " + q.db.SQL.ByID + " SET status = 'finished', update_time = " + now +
			" WHERE (" + strings.Join(of, " OR ") + ") AND status = 'running' AND stopping = 0 AND worker_id = ?",
		Args: append(args, worker),
	}
}

type settling struct {
	ID       int64
	Status   job.Status
	Attempt  int
	Token    string
	Error    string
	Override string
	Stopping bool
}

// isOf says whether the row is as this attempt left it.
func (row settling) isOf(s Settled) bool {
	return row.Token == s.Job.Token && row.Attempt == s.Job.Attempt && (row.Status != job.StatusRunning || !s.Asked)
}

// settling is the query for the rows of attempts that a worker locked and started. It fills found.
func (q *Queue) settling(worker string, list []Settled, lock string, found map[int64]settling) engine.Query {
	args := Args(list, func(s Settled) any { return s.Job.ID })
	query := "SELECT id, status, attempt, lock_token, error, retry_override, stopping <> 0 FROM " + q.table + " " + q.db.SQL.ByID +
		" WHERE id IN " + notAlone(len(list)) + " AND status IN ('running', 'answered', 'deciding') AND worker_id = ? " + lock
	return engine.Query{SQL: query, Args: append(args, worker), Scan: engine.EachRow(func(row *sql.Rows) error {
		var s settling
		err := row.Scan(&s.ID, &s.Status, &s.Attempt, &s.Token, &s.Error, &s.Override, &s.Stopping)
		found[s.ID] = s
		return err
	})}
}

// lookForAbsent checks attempts whose rows settle didn't find: another transaction may lock them.
func (q *Queue) lookForAbsent(ctx context.Context, tx *engine.Tx, worker string, absent []Settled, done *Done) error {
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

// settleOne settles one attempt of any outcome. The policy decides without waiting: an error becomes retry or final in one
// write. Without an entry, the attempt isn't over yet.
func (q *Queue) settleOne(ctx context.Context, tx *engine.Tx, row settling, s Settled, done *Done) ([]activity.Entry, error) {
	o := s.Outcome
	if o.Verdict == job.Finished && q.async(s.Job.Type) {
		o.Verdict = job.Sent
	}
	if s.Job.Status = row.Status; row.Status != job.StatusRunning && !s.Asked {
		// By an answer while the handler ran, which overrides the handler; or by a commit whose reply was lost.
		said := job.Job{Status: row.Status, Error: row.Error, RetryOverride: row.Override}
		ran, output := o.Ran, o.Output
		o = said.Outcome(tx.Now)
		if o.Ran, o.Output = ran, output; row.Status == job.StatusAnswered && o.Verdict == job.Failed {
			s.Waits = "" // no retry handler decides after an answer that ends the job
		}
		done.Answered[s.Job.ID] = o
	}
	if row.Stopping && o.Verdict != job.Finished { // work that was only sent isn't done
		o = job.Outcome{Verdict: job.Stopped, Error: job.Cancelled, Output: o.Output, Ran: o.Ran}
		s.Decision, s.Note = nil, "" // whatever a retry handler said meanwhile
	}
	s.Outcome = o
	if !s.Asked && !s.NotBegun && o.Verdict != job.Interrupted { // a retry decision leaves the losses
		s.Job.Losses = 0
	}
	if s.Waits == job.StatusDeciding && o.Verdict.IsError() && !s.Asked {
		asked := s
		asked.Asked = true
		done.Resting = append(done.Resting, asked)
	}
	return q.Conclude(ctx, tx, s)
}
