package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/schema"
)

// backlog measures, as of now, the jobs of a queue that are due, and those whose worker is dead. Of a type and of each way to be
// due it counts up to most jobs and one more; 0 is all. What waits longest is known all the same, in each shard.
func (m *Monitor) backlog(ctx context.Context, q schema.Queue, now time.Time, most int64) (all []standing, err error) {
	table, err := m.db.CheckQueue(q.Name)
	if err != nil {
		return nil, err
	}
	at, claim := engine.At(now), m.db.Index(table, schema.ClaimIndex)
	add := func(query string, args ...any) error {
		var found []standing
		err := m.db.SelectContext(ctx, &found, query, args...)
		all = append(all, found...)
		return err
	}
	if most > 0 {
		d := dive{m: m, table: table, claim: claim}
		all, err = d.due(ctx, at, most)
	}
	if most == 0 || errors.Is(err, errTooDeep) {
		all = nil
		// available, held back by a full group, or inserted by plain SQL and not taken in yet
		err = add("SELECT status, shard, job_type, COUNT(*) AS n, "+m.db.TimeText("MIN(scheduled_run_time)")+" AS oldest FROM "+
			table+" "+claim+" WHERE status IN ('available', 'throttled', 'submitted') AND scheduled_run_time <= ? GROUP BY "+m.db.TypesOfClaim, at)
	}
	if err != nil {
		return nil, err
	}
	// due, but no worker has promoted it
	wake := table + " " + m.db.Index(table, "wake") + " WHERE status = 'scheduled' AND wake_time <= ?"
	woken := "SELECT shard, job_type, COUNT(*) AS n, " + m.db.TimeText("MIN(scheduled_run_time)") + " AS oldest FROM "
	if most > 0 {
		err = add(woken+"(SELECT shard, job_type, scheduled_run_time FROM "+wake+" ORDER BY wake_time LIMIT ?) AS woken GROUP BY shard, job_type", at, most+1)
	} else {
		err = add(woken+wake+" GROUP BY shard, job_type", at)
	}
	if err != nil {
		return nil, err
	}
	// a dead worker's, also of one whose lock is over although nobody has found it dead yet; of these, only what was not started is due
	join, missing := workers.New(m.db).Missing("j.worker_id")
	err = add("SELECT j.shard, j.job_type, COUNT(*) AS n, "+m.db.TimeText("MIN(CASE WHEN j.status <> 'running' THEN j.scheduled_run_time END)")+" AS oldest"+
		" FROM "+table+" AS j "+claim+" "+join+" AND w.lock_until > ? WHERE j."+schema.HasWorker+" AND "+missing+" GROUP BY j.shard, j.job_type", at)
	return all, err
}

// failed are how many of each job type failed for good, and are still to be seen to: up to most of each and one more; 0 is all.
func (m *Monitor) failed(ctx context.Context, q schema.Queue, most int64) (found []standing, err error) {
	table, err := m.db.CheckQueue(q.Name)
	if err != nil {
		return nil, err
	}
	claim := m.db.Index(table, schema.ClaimIndex)
	if most > 0 {
		d := dive{m: m, table: table, claim: claim}
		err = d.kinds(ctx, "failed", func(k kind) error {
			n, err := d.count(ctx, "failed", k, "", most+1)
			found = append(found, standing{JobType: k.JobType, N: n})
			return err
		})
	}
	if most == 0 || errors.Is(err, errTooDeep) {
		found = nil
		err = m.db.SelectContext(ctx, &found, "SELECT job_type, COUNT(*) AS n FROM "+table+" "+claim+" WHERE status = 'failed' GROUP BY "+m.db.TypesOfClaim)
	}
	if err != nil {
		return nil, fmt.Errorf("count the failed jobs of %s: %w", q.Name, err)
	}
	return found, nil
}
