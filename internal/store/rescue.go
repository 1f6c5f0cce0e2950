package store

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

const (
	// rescueMax bounds the jobs of one rescue transaction.
	rescueMax = 500
	// sqlMargin is how long after the timeout a SQL worker may still report an outcome.
	sqlMargin = 5 * time.Second
	// decideWithin is how long a job whose type has left this config waits for a retry handler elsewhere: see Dialect.DayAgo.
	decideWithin = 24 * time.Hour
)

// stuck is a job whose attempt or retry decision no worker will end.
type stuck struct {
	ID int64
	// WorkerID is the worker that has the job, if any.
	WorkerID string `db:"worker_id"`
	// Gone says that the worker is dead; otherwise it is a SQL worker that exceeded the timeout.
	Gone bool
	// Host and PID are nil if the worker's row is gone.
	Host, PID *string
	// Heard is when the worker was last seen.
	Heard engine.Time
}

// stuckFrom selects jobs of dead workers, and overdue jobs of SQL workers, which hipq can't stop. A worker is dead when its
// row says so, never by a clock: its renewals then fail. from has all jobs that a worker has locked, wanted is the condition for
// stuck ones, and gone for those of dead workers.
func (q *Queue) stuckFrom(joins string) (from, wanted, gone string) {
	join, gone := q.workers.Missing("j.worker_id")
	wanted = gone
	if q.db.SQL.Engine == engine.MySQL.Engine { // an answered attempt hangs too: it counts against the limits
		wanted = "(" + gone + " OR w.by_sql = 1 AND j.status IN ('running', 'answered')" +
			fmt.Sprintf(" AND j.start_time + INTERVAL (j.timeout + %d) SECOND <= UTC_TIMESTAMP(6))", sqlMargin/time.Second)
	}
	return q.table + " j " + q.ClaimIndex() + " " + join + joins + " WHERE j." + schema.HasWorker, wanted, gone
}

// rescue ends attempts that no worker will end: the worker is dead, the answer is overdue, or a SQL worker exceeded the
// timeout. The retry policy decides at once, or the job waits in the state error for its type's retry handler. It also
// decides about such jobs without a retry handler, for example after an answer.
type rescue struct {
	*Queue
	worker workers.Worker
	// handled maps the worker's types to whether they have a retry handler.
	handled map[string]bool
}

// run rescues what a poll found. dead is as for Upkeep: a dead worker's processes must end before its jobs are rescued.
func (r rescue) run(ctx context.Context, l Poll, dead func(workerID string)) (more bool, err error) {
	found, more, err := r.find(ctx, l)
	if err != nil {
		return false, fmt.Errorf("find the jobs of %s to rescue: %w", r.Name, err)
	}
	for _, s := range found {
		// A worker without a row may belong to another instance: other code wrote its id there.
		if s.Gone && s.Host != nil && dead != nil {
			dead(s.WorkerID)
		}
	}
	err = r.endAll(ctx, found)
	if engine.IsLockTimeout(err) { // one by one, so that the others don't wait with the blocked one
		rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] }) // blocked ones might stay first
		err = nil
		for at := 0; at < len(found) && err == nil; at++ {
			err = r.endAll(ctx, found[at:at+1])
		}
	}
	return more, texts.Wrap(err, "rescue jobs of %s", r.Name)
}

// find finds stuck jobs without locks, which would also lock the workers' rows.
func (r rescue) find(ctx context.Context, l Poll) (found []stuck, more bool, err error) {
	find := func(query string, args ...any) {
		if err == nil {
			var list []stuck
			err = r.db.SQL.SelectContext(ctx, &list, query+" LIMIT ?", append(args, rescueMax)...)
			found, more = append(found, list...), more || len(list) == rescueMax
		}
	}
	if l.Stuck {
		from, wanted, gone := r.stuckFrom(" LEFT JOIN " + r.db.Workers() + " d " + r.db.SQL.ByKey + " ON d.id = j.worker_id")
		find("SELECT j.id, j.worker_id, " + gone + " AS gone, d.host, d.pid, d.heartbeat AS heard FROM " + from + " AND " + wanted)
	}
	if l.Waking {
		find("SELECT id FROM " + r.table + " " + r.Index("wake") + " WHERE wake_time <= (SELECT " + r.db.SQL.NowSQL + ") AND status = 'awaiting' ORDER BY wake_time")
	}
	if l.Undecided {
		types, args := r.decidedHere().condition()
		find("SELECT id FROM "+r.table+" "+r.whereUndecided()+types, args...)
		from, args := r.undecidedOfFormer(slices.Collect(maps.Keys(r.handled)))
		find("SELECT former.id"+from, args...)
	}
	return found, more, err
}

// whereUndecided is the condition for jobs that wait for a retry decision. One for their types follows.
func (q *Queue) whereUndecided() string {
	return q.ClaimIndex() + " WHERE status = 'undecided' AND" + q.inShards() + " AND part = 'NONE' AND "
}

// undecidedOfFormer selects undecided jobs whose types neither this worker nor its config knows, and whose retry policy must
// decide: no retry handler is registered, or none has decided for a day. The limit bounds what a poll reads of jobs that wait
// for another worker.
func (q *Queue) undecidedOfFormer(types []string) (from string, args []any) {
	if _, all := q.configured[job.AllTypes]; all {
		return " FROM (SELECT 0 AS id) AS former WHERE 1 = 0", nil
	}
	known := slices.AppendSeq(slices.Clone(types), maps.Keys(q.configured))
	args = append(engine.Args(known), "") // no type has this name
	from = " FROM (SELECT id, job_type, update_time FROM " + q.table + " " + q.whereUndecided() + "job_type NOT IN " + engine.In(len(args)) +
		fmt.Sprintf(" LIMIT %d) AS former", rescueMax) +
		" LEFT JOIN " + q.db.JobTypes() + " t ON t.queue = ? AND t.job_type = former.job_type" +
		` WHERE (t.settings NOT LIKE '%"retry_handler":true%' OR former.update_time <= ` + q.db.SQL.DayAgo + ")"
	return from, append(args, q.Name)
}

// decidedHere returns the types without a retry handler, as this worker or the config knows.
func (r rescue) decidedHere() Types {
	asked := map[string]bool{}
	for t, c := range r.configured {
		asked[t] = c.RetryHandler
	}
	maps.Copy(asked, r.handled)
	var here, others []string
	for t, is := range asked {
		if is {
			others = append(others, t)
		} else {
			here = append(here, t)
		}
	}
	return TypesOf(here, others)
}

// endAll rescues jobs in one transaction. It skips rows and keys that another transaction locks: a later poll finds them.
func (r rescue) endAll(ctx context.Context, found []stuck) error {
	if len(found) == 0 {
		return nil
	}
	byID, ids := map[int64]stuck{}, texts.Map(found, func(s stuck) any { return s.ID })
	for _, s := range found {
		byID[s.ID] = s
	}
	return r.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		var jobs []*job.Job
		rest := r.db.SQL.ByID + " WHERE id IN " + notAlone(len(ids)) +
			" AND status IN ('locked', 'running', 'answered', 'deciding', 'awaiting', 'undecided') " + tx.SkipLocked
		query := r.Jobs(allBut("job_data", "result"), rest, ids, func(j *job.Job) { jobs = append(jobs, j) })
		if err := tx.Read(ctx, query); err != nil {
			return err
		}
		jobs, err := r.withFreeKeys(ctx, tx, jobs)
		if err != nil {
			return err
		}
		var entries []activity.Entry
		for _, j := range jobs {
			some, err := r.end(ctx, tx, byID[j.ID], j)
			if err != nil {
				return err
			}
			entries = append(entries, some...)
		}
		return r.logAs(ctx, tx, r.worker, entries)
	})
}

// outcome is the outcome of the job's attempt; ok says that it is still stuck. Go compares the worker ids, because MariaDB
// needs valid text.
func (s stuck) outcome(j *job.Job, now time.Time) (o job.Outcome, ok bool) {
	lost := j.Status.HasWorker() && j.WorkerID == s.WorkerID && s.Gone
	late := j.Status == job.StatusAwaiting && !j.WakeTime.After(now) ||
		j.Status.HasWorker() && j.WorkerID == s.WorkerID && !s.Gone && j.Ran(now) >= j.Timeout+sqlMargin
	if j.State() == job.Running && j.Status != job.StatusAnswered {
		switch {
		case lost && s.Host != nil && s.PID != nil:
			j.Error = fmt.Sprintf("worker lost: %s (pid %s on %s)", s.WorkerID, *s.PID, *s.Host)
		case lost:
			j.Error = "worker lost: " + s.WorkerID
		default:
			j.Error = policy.TimeoutError(j.Timeout).Error()
		}
		if j.RetryOverride = job.None; lost {
			j.RetryOverride = job.OverrideOfLost(s.Heard.Time)
		}
	}
	if o = j.Outcome(now); lost && j.Status == job.StatusAnswered {
		o.Ran = j.Ran(s.Heard.Time)
	}
	return o, lost || late || j.Status == job.StatusUndecided
}

// end ends a job's attempt, up to the decision if a retry handler makes that.
func (r rescue) end(ctx context.Context, tx *engine.Tx, s stuck, j *job.Job) ([]activity.Entry, error) {
	o, ok := s.outcome(j, tx.Now)
	switch {
	case !ok:
		return nil, nil
	case j.Invalid != nil:
		return nil, r.Reject(ctx, tx, r.worker, j)
	case j.Status == job.StatusLocked: // a SQL worker locked it but didn't start it
		status, wake := policy.StatusAt(j.ScheduledRunTime, tx.Now)
		return nil, tx.Write(ctx, "UPDATE "+r.table+" "+r.db.SQL.ByID+" SET status = ?, wake_time = ?, worker_id = 'NONE' WHERE id = ?", status, engine.At(wake), j.ID)
	case j.Status == job.StatusAnswered:
	case j.State() == job.Running && s.Gone:
		policy.Lost(j)
	case j.State() == job.Running: // a lost decision leaves the losses
		j.Losses = 0
	}
	j.WorkerID = job.None
	asked, known := r.handled[j.Type]
	if !known {
		t, err := r.TypeOf(ctx, tx, j.Type)
		if err != nil {
			return nil, err
		}
		asked = t.RetryHandler && (j.Status != job.StatusUndecided || tx.Now.Sub(j.UpdateTime) < decideWithin)
	}
	answered := j.Status == job.StatusAnswered && o.Verdict == job.Failed // no retry handler decides about it
	switch {
	case !asked || !o.Verdict.IsError() || answered:
		entry, _, err := r.End(ctx, tx, j, o, Decided{})
		return []activity.Entry{entry}, err
	case j.Status == job.StatusUndecided:
		return nil, nil
	}
	return nil, r.Leave(ctx, tx, j, o, job.StatusUndecided)
}

// withFreeKeys returns the locked jobs whose entries in the key index are free: ending a job deletes its entry.
func (q *Queue) withFreeKeys(ctx context.Context, tx *engine.Tx, jobs []*job.Job) (free []*job.Job, err error) {
	if tx.SkipLocked == "" || len(jobs) == 0 {
		return jobs, nil
	}
	keys := map[string][]any{}
	for _, j := range jobs {
		keys[j.Type] = append(keys[j.Type], j.Key)
	}
	var found []any
	for name, of := range keys {
		query := "SELECT id FROM " + q.table + " " + q.Index("live") + " WHERE job_type = ? AND live = 1 AND job_key IN " + engine.In(len(of)) + " " + tx.SkipLocked
		ids, err := q.IDs(ctx, tx, query, append([]any{name}, of...)...)
		if err != nil {
			return nil, fmt.Errorf("lock the keys of jobs: %w", err)
		}
		found = append(found, ids...)
	}
	return slices.DeleteFunc(jobs, func(j *job.Job) bool { return !slices.Contains(found, any(j.ID)) }), nil
}

// Undecided locks up to r.Slots jobs of these types that wait for a retry decision, and returns them with their last
// attempts. The round is for this alone; after the retry handler has decided, another round writes the decision. A worker
// declared dead gets none. It may be repeated: see Round.Token.
func (q *Queue) Undecided(ctx context.Context, r Round, types Types) (list []Settled, err error) {
	err = q.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		jobs, err := q.lockedUnder(ctx, tx, r) // locked by an earlier try
		if err == nil && len(jobs) == 0 {
			jobs, err = q.takeUndecided(ctx, tx, r, types)
		}
		list = texts.Map(jobs, func(j *job.Job) Settled { return Settled{Job: j, Outcome: j.Outcome(tx.Now)} })
		return err
	})
	return list, texts.Wrap(err, "take failed jobs of %s to decide about", q.Name)
}

func (q *Queue) takeUndecided(ctx context.Context, tx *engine.Tx, r Round, types Types) (taken []*job.Job, err error) {
	if working, err := q.workers.IsWorking(ctx, tx, r.Worker.ID); err != nil || !working {
		return nil, err
	}
	ofTypes, args := types.condition()
	args = append(args, r.Slots)
	var jobs []*job.Job
	rest := q.whereUndecided() + ofTypes + " LIMIT ? " + tx.SkipLocked
	if err := tx.Read(ctx, q.Jobs(AllColumns, rest, args, func(j *job.Job) { jobs = append(jobs, j) })); err != nil {
		return nil, err
	}
	taken, invalid := apart(jobs)
	if err := q.Reject(ctx, tx, r.Worker, invalid...); err != nil || len(taken) == 0 {
		return nil, err
	}
	args = []any{r.Worker.ID, r.Token}
	for _, j := range taken {
		j.Status, j.WorkerID, j.Token = job.StatusDeciding, r.Worker.ID, r.Token
		args, *r.Tried = append(args, j.ID), append(*r.Tried, j.ID)
	}
	return taken, tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET status = 'deciding', worker_id = ?, lock_token = ? WHERE status = 'undecided' AND id IN "+
		engine.In(len(taken)), args...)
}
