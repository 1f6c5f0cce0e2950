package monitor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/schema"
)

// jobCount counts jobs of one type, of one shard and one status; there may be several of them.
type jobCount struct {
	JobType string `db:"job_type"`
	// Place is the number of the shard in the tables.
	Place  int    `db:"shard"`
	Status string `db:"status"`
	// N jobs wait that shouldn't.
	N int64 `db:"n"`
	// Oldest is since when the first of them has been due.
	Oldest engine.Time `db:"oldest"`
	// Used is the weight of the jobs that count against the queue's limit.
	Used int64 `db:"used"`
}

// backlog counts, as of now, the jobs of a queue that are due, and those whose worker is dead. Of a type and of each way to be
// due it counts up to most jobs and one more; 0 is all. What waits longest is known anyway, in each shard.
func (m *Monitor) backlog(ctx context.Context, q schema.Queue, now time.Time, most int64) (all []jobCount, err error) {
	table, err := m.db.CheckQueue(q.Name)
	if err != nil {
		return nil, err
	}
	at, claim, woken := engine.At(now), m.db.SQL.Index(table, schema.ClaimIndex), int64(math.MaxInt64)
	add := func(query string, args ...any) error {
		var found []jobCount
		err := m.db.SQL.SelectContext(ctx, &found, query, args...)
		all = append(all, found...)
		return err
	}
	if most > 0 {
		s := skipScan{m: m, table: table, claim: claim}
		all, err = s.due(ctx, at, most)
		woken = most + 1
	}
	if most == 0 || errors.Is(err, errTooMany) {
		all = nil
		// available, held back by a full group, or inserted by plain SQL and not accepted yet
		err = add("SELECT status, shard, job_type, COUNT(*) AS n, "+m.db.SQL.TimeText("MIN(scheduled_run_time)")+" AS oldest FROM "+
			table+" "+claim+" WHERE status IN ('available', 'throttled', 'submitted') AND scheduled_run_time <= ? GROUP BY "+m.db.SQL.TypesOfClaim, at)
	}
	if err != nil {
		return nil, err
	}
	// due, but no worker has promoted it
	err = add("SELECT shard, job_type, COUNT(*) AS n, "+m.db.SQL.TimeText("MIN(scheduled_run_time)")+" AS oldest FROM"+
		" (SELECT shard, job_type, scheduled_run_time FROM "+table+" "+m.db.SQL.Index(table, "wake")+
		" WHERE status = 'scheduled' AND wake_time <= ? ORDER BY wake_time LIMIT ?) AS woken GROUP BY shard, job_type", at, woken)
	if err != nil {
		return nil, err
	}
	// a dead worker's, also of one whose lock is over although it was not found dead yet; of these, only what was not started is due
	join, missing := workers.New(m.db).Missing("j.worker_id")
	err = add("SELECT j.shard, j.job_type, COUNT(*) AS n, "+m.db.SQL.TimeText("MIN(CASE WHEN j.status <> 'running' THEN j.scheduled_run_time END)")+" AS oldest"+
		" FROM "+table+" AS j "+claim+" "+join+" AND w.lock_until > ? WHERE j."+schema.HasWorker+" AND "+missing+" GROUP BY j.shard, j.job_type", at)
	return all, err
}

// failed counts the jobs of each type that failed for good and are open: up to most of each and one more; 0 is all.
func (m *Monitor) failed(ctx context.Context, q schema.Queue, most int64) (found []jobCount, err error) {
	table, err := m.db.CheckQueue(q.Name)
	if err != nil {
		return nil, err
	}
	claim := m.db.SQL.Index(table, schema.ClaimIndex)
	if most > 0 {
		s := skipScan{m: m, table: table, claim: claim}
		found, err = s.failed(ctx, most)
	}
	if most == 0 || errors.Is(err, errTooMany) {
		found = nil
		err = m.db.SQL.SelectContext(ctx, &found, "SELECT job_type, COUNT(*) AS n FROM "+table+" "+claim+" WHERE status = 'failed' GROUP BY "+m.db.SQL.TypesOfClaim)
	}
	return found, texts.Wrap(err, "count the failed jobs of %s", q.Name)
}

// used sums up what counts against a queue's limit, as the workers that start jobs see it: by job type or by shard.
func (m *Monitor) used(ctx context.Context, q schema.Queue, by string) (used []jobCount, err error) {
	table, err := m.db.CheckQueue(q.Name)
	if err != nil {
		return nil, err
	}
	err = m.db.SQL.SelectContext(ctx, &used, "SELECT "+by+", CAST(COALESCE(SUM(throttle_factor + 0.0), 0) AS SIGNED INTEGER) AS used FROM "+table+" "+
		m.db.SQL.Index(table, schema.ClaimIndex)+" WHERE "+schema.Counts+" GROUP BY "+by)
	return used, texts.Wrap(err, "sum up the throttle factors of %s", q.Name)
}

// gauge measures, as of now, the backlog of each registered queue: jobs that are due, and those whose worker is dead; and the use
// of its throttle limit. Types of the hour that have none get a 0, which is not the same as not measured.
func (m *Monitor) gauge(ctx context.Context, hour metrics, now time.Time) error {
	queues, err := m.usable(ctx)
	if err != nil {
		return err
	}
	shards, err := m.queueShards(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		counts, err := m.backlog(ctx, q, now, 0)
		if err != nil {
			return fmt.Errorf("measure the backlog of %s: %w", q.Name, err)
		}
		used, err := m.used(ctx, q, "job_type")
		if err != nil {
			return err
		}
		for _, c := range append(counts, used...) {
			hour.row(key{q.Name, c.JobType}).measured(c, now)
		}
	}
	for k, r := range hour.rows {
		if k == workersKey {
			continue
		}
		r.measured(jobCount{}, now)
		if of := shards[k.queue]; len(of) > 0 {
			r.ThrottleLimit = new(max(of[0].Limit, 0))
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
	if c.Status == "throttled" { // for lack of room in their groups
		*r.Held += c.N
	}
	*r.OldestDueMS = max(*r.OldestDueMS, oldest)
	*r.ThrottleUsed += c.Used
	r.GaugeTime = engine.At(now)
}
