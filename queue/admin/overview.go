package admin

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Division is how the database divides a queue's jobs into shards.
type Division struct {
	// Of is the number of shards.
	Of int
	// number is the division's number in the tables.
	number int
	// Otherwise is an ErrShards or ErrLimits if the queue's options differ. Until Reshard, workers with these options skip the
	// queue.
	Otherwise error
}

// Place returns the number of a shard in the tables and job.Place. Shards are 0 to Of-1.
func (d Division) Place(shard int) int { return policy.ShardPlace(d.number, shard) }

// Shard returns the shard at a place. ok is false if the place belongs to another division.
func (d Division) Shard(place int) (shard int, ok bool) { return policy.ShardAt(d.number, place) }

// Division reads the queue's division.
func (q *Queue) Division(ctx context.Context) (Division, error) {
	var number int
	var otherwise error
	err := q.s.DB().SQL.Read(ctx, q.s.Registration(&number, &otherwise))
	return q.division(number, otherwise), texts.Wrap(err, "read the registration of %s", q.s.Name)
}

func (q *Queue) division(number int, otherwise error) Division {
	if policy.ShardsIn(number) < 1 {
		number = q.s.Division().Number() // not registered yet
	}
	d := Division{Of: policy.ShardsIn(number), number: number}
	if q.s.Shards > 0 {
		d.Otherwise = otherwise
	}
	return d
}

// Misplaced counts jobs, except final ones and rows from plain SQL, that are placed by another division than that of the
// queue's options. It reads no other jobs.
func (q *Queue) Misplaced(ctx context.Context) (int64, error) { return q.s.Misplaced(ctx) }

// ShardState is the state of one shard.
type ShardState struct {
	// Counts are of the shard's jobs. Rows from plain SQL are in no shard before they are ingested.
	Counts
	// Used counts against the queue's limit, and Share is the shard's share of the limit; both are 0 without a limit. Used
	// exceeds Share while the shard gives room to others. RateUsed and RateShare are the same for the rate.
	Used, Share, RateUsed, RateShare int
	// WaitsSince is since when the limit or rate has blocked all starts; zero if neither does.
	WaitsSince time.Time
}

// Overview is the state of a queue.
type Overview struct {
	// Counts are of all jobs.
	Counts
	Division Division
	// Shards are the division's shards, in order.
	Shards []ShardState
	// Misplaced counts jobs, except final ones and rows from plain SQL, that are still placed by an earlier division. Workers
	// move them before they start them.
	Misplaced int64
}

// Overview reads the state of the queue by the database's clock. It reads the table's whole index.
func (q *Queue) Overview(ctx context.Context) (o Overview, err error) {
	s, err := q.situation(ctx)
	if err != nil {
		return o, err
	}
	o.Paused, o.Division, o.Shards = s.paused, s.division, make([]ShardState, s.division.Of)
	for i := range o.Shards {
		part, of := q.part(s, s.division.Place(i)), &o.Shards[i]
		of.Share, of.RateShare, of.RateUsed = part.Share, part.RateShare, part.StartsLately(q.s.Rate)
		if part.Waits() {
			of.WaitsSince = time.UnixMicro(part.WaitSince).UTC()
		}
	}
	jobs := "SELECT status, shard, COUNT(*), COALESCE(SUM(status IN ('submitted', 'scheduled') AND scheduled_run_time > ?), 0), " +
		"COALESCE(SUM(" + Retry.condition() + "), 0), " + q.s.DB().SQL.TimeText("MIN(CASE WHEN status IN ('submitted', 'available', 'scheduled', 'throttled') THEN scheduled_run_time END)") +
		" FROM " + q.s.Table() + " " + q.s.ClaimIndex() + " GROUP BY status, shard"
	err = q.s.DB().SQL.Read(ctx, engine.Query{SQL: jobs, Args: []any{engine.At(s.now)}, Scan: engine.EachRow(func(row *sql.Rows) error {
		var c counted
		var place int
		err := row.Scan(&c.status, &place, &c.n, &c.later, &c.retrying, &c.oldest)
		o.add(c, s.now)
		switch i, ok := s.division.Shard(place); {
		case ok:
			o.Shards[i].add(c, s.now)
		case !c.status.IsFinal() && c.status != job.StatusSubmitted:
			o.Misplaced += c.n
		}
		return err
	})}, store.Weights(q.s, "shard", schema.Counts, func(place, used int) {
		if i, ok := s.division.Shard(place); ok {
			o.Shards[i].Used = used
		}
	}))
	return o, texts.Wrap(err, "count the jobs of %s", q.s.Name)
}

// Sketch is Overview with each status counted up to most, without shards. more has the statuses with more jobs, and Retry if those of
// them that were not counted may wait for one. It reads the more, the larger most is, whatever the queue has.
func (q *Queue) Sketch(ctx context.Context, most int64) (o Overview, more map[Status]bool, err error) {
	s, err := q.situation(ctx)
	if err != nil {
		return o, nil, err
	}
	all, err := Tallies(ctx, func(Status) int64 { return most }, (*queue.Queue)(q.s))
	if err != nil {
		return o, nil, err
	}
	t := all[0]
	o = Overview{Division: s.division, Counts: Counts{
		Paused: s.paused, Due: t[Due], Scheduled: t[Scheduled], Locked: t[Locked], Running: t[Running], Error: t[Error], Failed: t[Failed],
		Finished: t[Finished], Held: t[Held], Waiting: t[Waiting], Closed: t[Closed], Retrying: t[Retry],
	}}
	more = map[Status]bool{}
	for status, n := range t {
		more[status] = n >= most || more[status]
		more[Retry] = more[Retry] || n >= most && slices.Contains(waiting, status)
	}
	if o.Misplaced, err = q.s.Misplaced(ctx); err != nil {
		return o, more, err
	}
	for _, since := range []Status{Due, Held} {
		oldest, err := q.oldest(ctx, since)
		if err != nil {
			return o, more, err
		}
		for _, at := range oldest {
			o.add(counted{oldest: engine.Time{Time: at}}, s.now)
		}
	}
	return o, more, nil
}

// oldest returns since when the first job of each type with a status is due.
func (q *Queue) oldest(ctx context.Context, status Status) (map[string]time.Time, error) {
	all, err := q.stretches(ctx, Filter{Status: status}, nil)
	if len(all) > stretchesMost {
		all = nil
		query := "SELECT job_type, " + q.s.DB().SQL.TimeText("MIN(scheduled_run_time)") + " AS since FROM " + q.s.Table() + " " + q.s.ClaimIndex() +
			" WHERE status IN " + engine.In(len(status.rows())) + " GROUP BY " + q.s.DB().SQL.TypesOfClaim
		err = q.s.DB().SQL.SelectContext(ctx, &all, query, engine.Args(status.rows())...)
	}
	oldest := map[string]time.Time{}
	for _, s := range all {
		if since, known := oldest[s.JobType]; !known || s.Since.Before(since) {
			oldest[s.JobType] = s.Since.Time
		}
	}
	return oldest, texts.Wrap(err, "find the oldest jobs of %s", q.s.Name)
}

// situation is what applies to all jobs of a queue at one moment.
type situation struct {
	now      time.Time
	paused   bool
	division Division
	shards   []store.ShardRow
}

func (q *Queue) situation(ctx context.Context) (s situation, err error) {
	db, number, now, otherwise := q.s.DB(), 0, engine.Time{}, error(nil)
	err = db.SQL.Read(ctx, engine.Values(
		engine.Value{SQL: db.SQL.TimeText(db.SQL.NowSQL), Into: &now},
		engine.Value{SQL: q.s.PausedExpr(), Args: []any{q.s.Name}, Into: &s.paused},
	), q.s.Registration(&number, &otherwise), q.s.ShardRows(&s.shards))
	s.now, s.division = now.Time, q.division(number, otherwise)
	return s, texts.Wrap(err, "read the state of queue %s", q.s.Name)
}

// part returns a shard's share of the limit and the rate: all of both if it is the only shard, or they aren't divided yet.
func (q *Queue) part(s situation, place int) (r store.ShardRow) {
	at := slices.IndexFunc(s.shards, func(r store.ShardRow) bool { return r.Place == place })
	if at >= 0 {
		r = s.shards[at]
	}
	if at < 0 || s.division.Of == 1 {
		r.Share, r.RateShare = max(0, q.s.ThrottleLimit), q.s.Rate.Starts
	}
	return r
}

const passedBy = time.Hour

// Unhandled returns job types, perhaps misspelled, that no worker seems to handle, and since when they are due. Such a type
// had due jobs for an hour in which workers ran none of them. handled are types to leave out. lastSeen is the latest heartbeat
// of any worker, or zero. A paused queue has none.
//
// It reads the first due job of each type, and if such types are possible, the activity since then.
func (q *Queue) Unhandled(ctx context.Context, paused bool, lastSeen time.Time, handled []string) (map[string]time.Time, error) {
	if paused || lastSeen.IsZero() || slices.Contains(handled, job.AllTypes) {
		return nil, nil
	}
	before := lastSeen.Add(-passedBy)
	due, err := q.oldest(ctx, "available")
	for name, since := range due {
		if since.After(before) || slices.Contains(handled, name) {
			delete(due, name)
			continue
		}
		var runs bool
		query := "SELECT EXISTS (SELECT 1 FROM " + q.s.Table() + " " + q.s.ClaimIndex() + " WHERE status IN ('locked', 'running', 'answered', 'deciding', 'awaiting')" +
			" AND part IN ('NONE', 'stop') AND job_type = ?)"
		if err = q.s.DB().SQL.GetContext(ctx, &runs, query, name); err == nil && !runs {
			runs, err = activity.New(q.s.DB()).Started(ctx, q.s.Name, name, before)
		}
		if err != nil {
			break
		}
		if runs {
			delete(due, name)
		}
	}
	return due, texts.Wrap(err, "find the job types of %s that no worker handles", q.s.Name)
}

// Counts are the jobs of a queue or shard, by status. Rounds never leave any Locked.
type Counts struct {
	// Paused is true if no jobs of the queue start.
	Paused bool `json:"paused"`
	// Due is the number of jobs that may run now.
	Due int64 `json:"due"`
	// Scheduled is the number of jobs that are due later.
	Scheduled int64 `json:"scheduled"`
	// Locked is the number of jobs that a worker has locked but not started yet.
	Locked int64 `json:"locked"`
	// Running is the number of jobs whose handler runs.
	Running int64 `json:"running"`
	// Error is the number of jobs that wait for their retry decision.
	Error int64 `json:"error"`
	// Failed is the number of final jobs with an error that needs attention.
	Failed int64 `json:"failed"`
	// Finished is the number of final jobs without an error.
	Finished int64 `json:"finished"`
	// Held is the number of jobs that are due, and stand in a limit's line, or wait in their throttle group.
	Held int64 `json:"held"`
	// Waiting is the number of jobs that wait for an answer from outside.
	Waiting int64 `json:"waiting"`
	// OldestDue is since when the oldest job of Due and Held waits; null if there is none.
	OldestDue job.Time `json:"oldest_due"`
	// Closed is the number of jobs that failed and were retried, dismissed or cancelled.
	Closed int64 `json:"closed"`
	// Retrying is the number of jobs in Due, Held and Scheduled that wait for a retry.
	Retrying int64 `json:"retrying"`
}

type counted struct {
	status job.Status
	// later of the n jobs are due later. retrying have had an attempt.
	n, later, retrying int64
	// oldest is when the first waiting job is due.
	oldest engine.Time
}

func (c *Counts) add(of counted, now time.Time) {
	where := map[job.Status]*int64{
		job.StatusSubmitted: &c.Due, job.StatusAvailable: &c.Due, job.StatusScheduled: &c.Due, job.StatusThrottled: &c.Held,
		job.StatusLocked: &c.Locked, job.StatusRunning: &c.Running, job.StatusAnswered: &c.Running, job.StatusAwaiting: &c.Waiting,
		job.StatusDeciding: &c.Error, job.StatusUndecided: &c.Error,
		job.StatusFinished: &c.Finished, job.StatusFailed: &c.Failed, job.StatusClosed: &c.Closed,
	}[of.status]
	if where != nil {
		*where += of.n - of.later
		c.Scheduled += of.later
	}
	c.Retrying += of.retrying
	if oldest := of.oldest; !oldest.IsZero() && !oldest.After(now) && (c.OldestDue.IsZero() || oldest.Before(c.OldestDue.Time)) {
		c.OldestDue.Time = oldest.Time
	}
}

// Progressing returns up to most running jobs with progress, the latest report first.
func (q *Queue) Progressing(ctx context.Context, most int) (jobs []*job.Job, err error) {
	// reads all running jobs, which can't exceed the slots
	rest := q.s.ClaimIndex() + " WHERE status = 'running' AND progress_attempt = attempt" +
		" ORDER BY " + q.s.Table() + ".progress_time DESC, id LIMIT ?"
	err = q.s.DB().SQL.Read(ctx, q.s.Jobs(store.AllColumns, rest, []any{most}, func(j *job.Job) {
		if j.Progress.Attempt > 0 { // otherwise the stored progress is invalid
			jobs = append(jobs, j)
		}
	}))
	return jobs, texts.Wrap(err, "read the progress of jobs of %s", q.s.Name)
}

// HasType says whether there is a job of a type, whatever its status.
func (q *Queue) HasType(ctx context.Context, jobType string) (has bool, err error) {
	db := q.s.DB().SQL
	query := "SELECT EXISTS (SELECT 1 FROM " + q.s.Table() + " " + db.Index(q.s.Table(), "live") + " WHERE job_type = ?)"
	return has, texts.Wrap(db.GetContext(ctx, &has, query, jobType), "look for jobs of %s", q.s.Name)
}

// Running returns the jobs whose handlers run, without their data. There are no more than slots.
func (q *Queue) Running(ctx context.Context) (jobs []*job.Job, err error) {
	rest := q.s.ClaimIndex() + " WHERE status IN ('running', 'answered')"
	err = q.s.DB().SQL.Read(ctx, q.s.Jobs(listColumns, rest, nil, func(j *job.Job) { jobs = append(jobs, j) }))
	return jobs, texts.Wrap(err, "read the running jobs of %s", q.s.Name)
}

// InRetry has the types of the jobs that are in an attempt after a failed one, or whose failure is to be decided about.
func (q *Queue) InRetry(ctx context.Context) (types []string, err error) {
	query := "SELECT DISTINCT job_type FROM " + q.s.Table() + " " + q.s.ClaimIndex() +
		" WHERE status IN ('running', 'answered', 'awaiting', 'deciding', 'undecided') AND (attempt > 1 OR status IN ('deciding', 'undecided'))"
	return types, texts.Wrap(q.s.DB().SQL.SelectContext(ctx, &types, query), "look for retries of %s", q.s.Name)
}

// Quarantined returns up to most jobs that run, or will run, in their own process.
func (q *Queue) Quarantined(ctx context.Context, most int) (jobs []*job.Job, err error) {
	db := q.s.DB()
	// read jobs only if a worker has died, because no index has their losses
	rest := q.s.ClaimIndex() + " WHERE status IN ('available', 'scheduled', 'throttled', 'locked', 'running', 'answered', 'awaiting', 'deciding', 'undecided')" +
		" AND attempt > 0 AND losses > 0 AND EXISTS (SELECT 1 FROM " + db.Workers() + " " + db.SQL.Index(db.Workers(), "state") + " WHERE state = 'error')" +
		" ORDER BY losses DESC, id LIMIT ?"
	err = db.SQL.Read(ctx, q.s.Jobs(store.AllColumns, rest, []any{most}, func(j *job.Job) {
		if j.IsQuarantined() {
			jobs = append(jobs, j)
		}
	}))
	return jobs, texts.Wrap(err, "read the quarantined jobs of %s", q.s.Name)
}
