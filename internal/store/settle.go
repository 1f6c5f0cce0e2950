package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// settlement is the part of a round that ends attempts.
type settlement struct {
	*Queue
	tx     *engine.Tx
	worker workers.Worker
	done   *Done
}

// settle writes the outcomes of attempts, whose rows were read first: it decides, and writes. An answered job ends as the
// answer says. If a row isn't as the attempt left it, settle leaves it alone: an earlier commit without a reply settled the
// job, or the worker was declared dead and lost its lock.
func (c settlement) settle(ctx context.Context, first *firstRead) error {
	var entries []activity.Entry
	var plain, absent []Settled
	for _, s := range first.others {
		row, ok := first.settling[s.Job.ID]
		switch {
		case !ok || !row.isOf(s):
			absent = append(absent, s)
		case row.Status == job.StatusRunning && !row.Stopping && c.isPlain(s):
			plain = append(plain, s)
		default:
			if s.Progress != nil && row.Status == job.StatusRunning {
				if err := c.noteProgress(ctx, c.tx, Said{s.Job, *s.Progress}); err != nil {
					return err
				}
			}
			some, err := c.settleOne(ctx, row, s)
			if err != nil {
				return err
			}
			entries = append(entries, some...)
		}
	}
	for some := range slices.Chunk(plain, locksMax) {
		finishing := c.finishing(c.tx, "UPDATE"+c.db.SQL.OrFail, c.worker.ID, some) // it waits for locking readers
		if err := c.tx.Write(ctx, finishing.SQL, finishing.Args...); err != nil {
			return fmt.Errorf("finish jobs: %w", err)
		}
	}
	finished := append(first.finishing, plain...) //nolint:gocritic // the round has no further use for it
	for i := range finished {
		finished[i].End.Status = job.StatusFinished
	}
	c.done.Ended = append(c.done.Ended, finished...)
	for _, s := range finished {
		if s.Outcome.Output != "" {
			e := c.Entry(s.Job, activity.Finished)
			e.RunMS, e.Output = s.Outcome.Ran.Milliseconds(), s.Outcome.Output
			entries = append(entries, e)
		}
	}
	if err := c.logRows(ctx, c.tx, c.worker, activity.Finished, ran(finished)); err != nil {
		return err
	}
	if err := c.logAs(ctx, c.tx, c.worker, entries); err != nil {
		return err
	}
	if err := c.Discard(ctx, c.tx, job.StatusFinished, texts.Map(finished, func(s Settled) any { return s.Job.ID })); err != nil {
		return err
	}
	if err := c.LetIn(ctx, c.tx, jobsOf(finished)...); err != nil {
		return err
	}
	return c.lookForAbsent(ctx, absent)
}

func jobsOf(list []Settled) []*job.Job {
	return texts.Map(list, func(s Settled) *job.Job { return s.Job })
}

// ran selects the rows of attempts without output, with their durations. Many short ones took 0 ms.
func ran(list []Settled) activity.JobRows {
	rows := activity.JobRows{IDs: make([]any, 0, len(list))}
	var cases strings.Builder
	for _, s := range list {
		if s.Outcome.Output != "" {
			continue
		}
		rows.IDs = append(rows.IDs, s.Job.ID)
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
	return o.Verdict == job.Finished && o.Result == "" && s.Progress == nil && !s.Asked && !q.async(s.Job.Type)
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
	args := texts.Map(list, func(s Settled) any { return s.Job.ID })
	query := "SELECT id, status, attempt, lock_token, error, retry_override, stopping <> 0 FROM " + q.table + " " + q.db.SQL.ByID +
		" WHERE id IN " + notAlone(len(list)) + " AND status IN ('running', 'answered', 'deciding') AND worker_id = ? " + lock
	var s settling
	into := []any{&s.ID, &s.Status, &s.Attempt, &s.Token, &s.Error, &s.Override, &s.Stopping}
	return engine.Query{SQL: query, Args: append(args, worker), Scan: engine.Into(func() { found[s.ID] = s }, into...)}
}

// lookForAbsent checks attempts whose rows settle didn't find: another transaction may lock them.
func (c settlement) lookForAbsent(ctx context.Context, absent []Settled) error {
	if len(absent) == 0 {
		return nil
	}
	rows := map[int64]settling{}
	if err := c.tx.Read(ctx, c.settling(c.worker.ID, absent, "", rows)); err != nil {
		return fmt.Errorf("look for attempts: %w", err)
	}
	working, err := c.workers.IsWorking(ctx, c.tx, c.worker.ID)
	if err != nil {
		return err
	}
	for _, s := range absent {
		if row, ok := rows[s.Job.ID]; ok && row.isOf(s) {
			c.done.Unsettled = append(c.done.Unsettled, s)
		} else if !working {
			c.done.Lost = append(c.done.Lost, s)
		} else {
			if s.Outcome.Verdict == job.Finished && !c.async(s.Job.Type) {
				s.End.Status = job.StatusFinished
			}
			c.done.Ended = append(c.done.Ended, s)
		}
	}
	return nil
}

// settleOne settles one attempt of any outcome. The policy decides without waiting: an error becomes retry or final in one
// write. Without an entry, the attempt isn't over yet.
func (c settlement) settleOne(ctx context.Context, row settling, s Settled) ([]activity.Entry, error) {
	o, j := s.Outcome, s.Job
	if o.Verdict == job.Finished && c.async(j.Type) {
		o.Verdict = job.Sent
	}
	asks := s.Asks && !s.Asked
	if j.Status = row.Status; row.Status != job.StatusRunning && !s.Asked {
		// By an answer while the handler ran, which overrides the handler; or by a commit whose reply was lost.
		said := (&job.Job{Status: row.Status, Error: row.Error, RetryOverride: row.Override}).Outcome(c.tx.Now)
		said.Ran, said.Output = o.Ran, o.Output
		o, s.Outcome = said, said
		asks = asks && (row.Status != job.StatusAnswered || o.Verdict != job.Failed) // otherwise the answer ends the job
	}
	if row.Stopping && o.Verdict != job.Finished { // work that was only sent isn't done
		o = job.Outcome{Verdict: job.Stopped, Error: job.Cancelled, Output: o.Output, Ran: o.Ran}
		s.Decided = Decided{} // whatever a retry handler said meanwhile
	}
	if !s.Asked && !s.NotBegun && o.Verdict != job.Interrupted && o.Verdict != job.NotBegun { // a retry decision leaves the losses
		j.Losses = 0
	}
	switch {
	case o.Verdict == job.Sent: // the work is done elsewhere
		s.End.Status = job.StatusAwaiting
		c.done.Ended = append(c.done.Ended, s)
		next := leftAs(job.StatusAwaiting, j, o)
		next.Error, next.Result, next.Wake = job.None, cmp.Or(o.Result, job.None), j.StartTime.Add(j.Timeout)
		return nil, c.write(ctx, c.tx, j, next)
	case asks && o.Verdict.IsError():
		s.Outcome, s.Asked = o, true
		c.done.Resting = append(c.done.Resting, s)
		return nil, c.Leave(ctx, c.tx, j, o, job.StatusDeciding)
	}
	entry, next, err := c.End(ctx, c.tx, j, o, s.Decided)
	if s.End.Status = next.Status; !next.Status.IsFinal() {
		s.End.At = next.Scheduled
	}
	c.done.Ended = append(c.done.Ended, s)
	return []activity.Entry{entry}, err
}

// SetProgress saves the progress that a worker's attempts reported, for those that still run under their tokens. It never
// waits for locks: held are the reports whose rows another transaction locks. It may be repeated.
func (q *Queue) SetProgress(ctx context.Context, workerID string, said []Said) (held []Said, err error) {
	args := append(texts.Map(said, func(s Said) any { return s.Job.ID }), workerID)
	query := "SELECT id FROM " + q.table + " " + q.db.SQL.ByID + " WHERE id IN " + notAlone(len(said)) + " AND worker_id = ? "
	err = q.db.SQL.TxInPassing(ctx, func(tx *engine.Tx) error {
		locked, err := q.IDs(ctx, tx, query+tx.SkipLocked, args...)
		if err != nil {
			return err
		}
		held = nil
		for _, s := range said {
			if !slices.Contains(locked, any(s.Job.ID)) {
				held = append(held, s)
				continue
			}
			if err := q.noteProgress(ctx, tx, s); err != nil {
				return err
			}
		}
		return nil
	})
	return held, texts.Wrap(err, "save the progress of jobs of %s", q.Name)
}

func (q *Queue) noteProgress(ctx context.Context, tx *engine.Tx, s Said) error {
	now, nowArgs := tx.Stamp()
	args := append([]any{s.Progress.Percent, s.Progress.Note, s.Job.Attempt}, nowArgs...)
	// where rows can't be locked, as on TiDB, another attempt may own it by now
	return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+
		" SET progress = ?, progress_note = ?, progress_attempt = ?, progress_time = "+now+
		" WHERE id = ? AND status = 'running' AND attempt = ? AND lock_token = ?",
		append(args, s.Job.ID, s.Job.Attempt, s.Job.Token)...)
}
