package monitor

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/schema"
)

// jobCount is a number of jobs of one type, shard and status. Several may have the same three.
type jobCount struct {
	JobType string `db:"job_type"`
	// Place is the shard's number in the column shard.
	Place  int    `db:"shard"`
	Status string `db:"status"`
	// N is how many jobs wait although they are due, or have a dead worker.
	N int64 `db:"n"`
	// Oldest is when the first of them became due.
	Oldest engine.Time `db:"oldest"`
	// Used is how much of the queue's throttle limit the jobs use.
	Used int64 `db:"used"`
}

// backlog counts the jobs of a queue that are due now, and the jobs whose worker is dead. For each type and reason it
// stops at most+1 jobs; 0 counts all. The oldest due time of each shard is exact anyway.
func (m *Monitor) backlog(ctx context.Context, q jobs, now time.Time, most int64) (all []jobCount, err error) {
	at, woken := engine.At(now), int64(math.MaxInt64)
	add := func(query string, args ...any) error {
		var found []jobCount
		err := m.db.SQL.SelectContext(ctx, &found, query, args...)
		all = append(all, found...)
		return err
	}
	// Available, held by a full throttle group, or submitted by plain SQL and not ingested yet.
	all, err = m.upTo(ctx, q, most, at, "available", "throttled", "submitted")
	if err != nil {
		return nil, err
	}
	if most > 0 {
		woken = most + 1
	}
	// Due, but not promoted yet.
	err = add("SELECT shard, job_type, COUNT(*) AS n, "+m.db.SQL.TimeText("MIN(scheduled_run_time)")+" AS oldest FROM"+
		" (SELECT shard, job_type, scheduled_run_time FROM "+q.table+" "+m.db.SQL.Index(q.table, "wake")+
		" WHERE status = 'scheduled' AND wake_time <= ? ORDER BY wake_time LIMIT ?) AS woken GROUP BY shard, job_type", at, woken)
	if err != nil {
		return nil, err
	}
	// Locked by a worker that died or whose lock expired. Only jobs that weren't started are due.
	join, missing := workers.New(m.db).Missing("j.worker_id")
	err = add("SELECT j.shard, j.job_type, COUNT(*) AS n, "+m.db.SQL.TimeText("MIN(CASE WHEN j.status <> 'running' THEN j.scheduled_run_time END)")+" AS oldest"+
		" FROM "+q.table+" AS j "+q.claim+" "+join+" AND w.lock_until > ? WHERE j."+schema.HasWorker+" AND "+missing+" GROUP BY j.shard, j.job_type", at)
	return all, err
}

// stretchesMost is in how many stretches of the claim index jobs are counted one by one; a read of the whole index is faster than more.
const stretchesMost = 500

// upTo counts the jobs with these statuses and a run time up to at. If most isn't 0, it counts up to most+1 of each type, unless the
// index has too many stretches.
func (m *Monitor) upTo(ctx context.Context, q jobs, most int64, at engine.Time, statuses ...string) (all []jobCount, err error) {
	var stretches []schema.Stretch
	for _, status := range statuses {
		if most > 0 {
			some, err := m.db.Stretches(ctx, q.table, status, stretchesMost)
			if stretches = append(stretches, some...); err != nil {
				return nil, err
			}
		}
	}
	from := " FROM " + q.table + " " + q.claim
	if most == 0 || len(stretches) > stretchesMost {
		query := "SELECT status, shard, job_type, COUNT(*) AS n, " + m.db.SQL.TimeText("MIN(scheduled_run_time)") + " AS oldest" + from +
			" WHERE status IN " + engine.In(len(statuses)) + " AND scheduled_run_time <= ? GROUP BY " + m.db.SQL.TypesOfClaim
		err = m.db.SQL.SelectContext(ctx, &all, query, append(engine.Args(statuses), at)...)
		return all, err
	}
	counted := map[string]int64{}
	for _, s := range stretches {
		if s.Since.After(at.Time) {
			continue
		}
		c := jobCount{JobType: s.JobType, Place: s.Place, Status: s.Status, Oldest: s.Since}
		if room := most + 1 - counted[s.JobType]; room > 0 {
			w := s.Where()
			w.And("scheduled_run_time <= ?", at)
			err := m.db.SQL.GetContext(ctx, &c.N, "SELECT COUNT(*) FROM (SELECT id"+from+w.SQL()+" LIMIT ?) AS counted", append(w.Args, room)...)
			if err != nil {
				return nil, err
			}
		}
		counted[s.JobType] += c.N
		all = append(all, c)
	}
	return all, nil
}

// never is later than any job's run time.
var never = engine.At(time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC))

// failed counts the open failed jobs of each type, up to most+1; 0 counts all.
func (m *Monitor) failed(ctx context.Context, q jobs, most int64) ([]jobCount, error) {
	found, err := m.upTo(ctx, q, most, never, "failed")
	return found, texts.Wrap(err, "count the failed jobs of %s", q.queue)
}

// retryingMost is among how many jobs of each status those that wait for a retry are counted, unless all are needed.
const retryingMost = 10_000

// retrying counts the jobs of each type that wait for a retry. If most is 0, it reads the index entries of all waiting jobs, which
// takes about 0.3 s for a million. Otherwise it may leave some out, and says so by more.
func (m *Monitor) retrying(ctx context.Context, q jobs, most int64) (found []jobCount, more bool, err error) {
	from, waiting := q.table+" "+q.claim, "('available', 'scheduled', 'throttled', 'locked')"
	if most == 0 {
		err = m.db.SQL.SelectContext(ctx, &found, "SELECT job_type, COUNT(*) AS n FROM "+from+" WHERE status IN "+waiting+" AND attempt > 0 GROUP BY job_type")
		return found, false, texts.Wrap(err, "count the jobs of %s that wait for a retry", q.queue)
	}
	var parts []string
	for _, status := range []string{"available", "scheduled", "throttled", "locked"} {
		parts = append(parts, fmt.Sprintf("SELECT * FROM (SELECT status, job_type, attempt FROM %s WHERE status = '%s' LIMIT %d) AS some", from, status, retryingMost))
	}
	var rows []struct {
		Status  string
		JobType string `db:"job_type"`
		Looked  int64
		N       int64
	}
	err = m.db.SQL.SelectContext(ctx, &rows, "SELECT status, job_type, COUNT(*) AS looked, SUM(attempt > 0) AS n FROM ("+strings.Join(parts, " UNION ALL ")+") AS waiting GROUP BY status, job_type")
	looked := map[string]int64{}
	for _, r := range rows {
		looked[r.Status] += r.Looked
		more = more || looked[r.Status] >= retryingMost
		if r.N > 0 {
			found = append(found, jobCount{JobType: r.JobType, N: r.N})
		}
	}
	return found, more, texts.Wrap(err, "count the jobs of %s that wait for a retry", q.queue)
}

// used sums the throttle factors that count against the queue's limit, by job type or by shard, as the claim does.
func (m *Monitor) used(ctx context.Context, q jobs, by string) (used []jobCount, err error) {
	err = m.db.SQL.SelectContext(ctx, &used, "SELECT "+by+", CAST(COALESCE(SUM(throttle_factor + 0.0), 0) AS SIGNED INTEGER) AS used FROM "+q.table+" "+
		q.claim+" WHERE "+schema.Counts+" GROUP BY "+by)
	return used, texts.Wrap(err, "sum up the throttle factors of %s", q.queue)
}

// gauge measures the backlog and throttle use of each registered queue now. Types of the hour without a backlog get 0,
// because nil means not measured.
func (m *Monitor) gauge(ctx context.Context, hour metrics, now time.Time) error {
	queues, err := m.usable(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		counts, err := m.backlog(ctx, q, now, 0)
		if err != nil {
			return fmt.Errorf("measure the backlog of %s: %w", q.queue, err)
		}
		used, err := m.used(ctx, q, "job_type")
		if err != nil {
			return err
		}
		for _, c := range append(counts, used...) {
			hour.row(key{q.queue, c.JobType}).measured(c, now)
		}
		for k, r := range hour.rows {
			if k.queue == q.queue {
				r.measured(jobCount{}, now)
				r.ThrottleLimit = new(max(q.shards[0].Limit, 0))
			}
		}
	}
	return nil
}

func (r *metric) measured(c jobCount, now time.Time) {
	var oldest int64
	if !c.Oldest.IsZero() {
		oldest = now.Sub(c.Oldest.Time).Milliseconds()
	}
	if r.Backlog == nil {
		r.Backlog, r.Held, r.OldestDueMS, r.ThrottleUsed = new(int64), new(int64), new(int64), new(int64)
	}
	*r.Backlog += c.N
	if c.Status == "throttled" { // their throttle groups are full
		*r.Held += c.N
	}
	*r.OldestDueMS = max(*r.OldestDueMS, oldest)
	*r.ThrottleUsed += c.Used
	r.GaugeTime = engine.At(now)
}
