package monitor

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/schema"
)

// LastAttempts is the newest attempts of one job type.
type LastAttempts struct {
	// Ended is the number of attempts. Bad is the number with an error.
	Ended, Bad int64
	// Since is when the first of them ended.
	Since engine.Time

	// failed is after how many of them the job failed for good.
	failed  int64
	failing map[int64]bool
}

const (
	// lastEntries is how many of the newest activity entries a check reads at most, however busy the hour was.
	lastEntries = 20_000
	// lastEnded is how many attempts of a type are judged, so that a busy type's error rate rises within minutes.
	lastEnded = 1000
	// failingJobs is how many failing jobs make up for enoughAttempts. One job may have many attempts.
	failingJobs = 5
)

// ErrorRate is the fraction of attempts with an error; 0 without attempts.
func (l LastAttempts) ErrorRate() float64 { return part(l.Bad, l.Ended) }

func (l LastAttempts) enough() bool {
	return l.Ended >= enoughAttempts || len(l.failing) >= failingJobs
}

// lastAttempts adds to each type the attempts that ended in the last hour, aggregated or not. Attempts that lost their
// worker are left out because they say nothing about the handler.
func (m *Monitor) lastAttempts(ctx context.Context, s *State, of func(key) *TypeState) error {
	table := m.db.Activity()
	query := "SELECT " + m.db.SQL.TimeColumns("at") + ", state, queue, job_type, CAST(job_id AS SIGNED INTEGER) AS job_id, SUBSTR(error, 1, 60) AS error FROM " + table + " " + m.db.SQL.ByID +
		" WHERE id > (SELECT MAX(id) FROM " + table + ") - ? AND at >= ? AND kind = 'job' AND state IN ('finished', 'error', 'failed')" +
		" AND run_ms >= 0 ORDER BY id DESC"
	type entry struct {
		At      engine.Time
		State   activity.State
		Queue   string
		JobType string `db:"job_type"`
		JobID   int64  `db:"job_id"`
		Error   string
	}
	err := engine.Each(ctx, m.db.SQL, query, []any{lastEntries, engine.At(s.At.Add(-time.Hour))}, func(e entry) error {
		last := &of(key{e.Queue, e.JobType}).Last
		if last.Ended == lastEnded || (activity.Entry{State: e.State, Error: e.Error}).OfWorker() {
			return nil
		}
		if last.Ended++; e.State != activity.Finished {
			if last.failing == nil {
				last.failing = map[int64]bool{}
			}
			last.Bad++
			if e.State == "failed" {
				last.failed++
			}
			last.failing[e.JobID] = true
		}
		last.Since = e.At
		return nil
	})
	return texts.Wrap(err, "read the last attempts")
}

// Retrying is how many jobs of a type wait for a retry.
type Retrying struct {
	Queue   string `json:"queue"`
	JobType string `json:"job_type"`
	// Jobs is the number of jobs that wait for a retry.
	Jobs int64 `json:"jobs"`
}

// Retrying counts the jobs that wait for a retry, by queue and type. It reads the index entries of all waiting jobs,
// which takes about 0.3 s for a million.
func (m *Monitor) Retrying(ctx context.Context) ([]Retrying, error) {
	return m.retrying(ctx, math.MaxInt64)
}

// retryingMost is among how many jobs of a status those that wait for a retry are counted, if nobody needs all.
const retryingMost = 10_000

// retrying is Retrying among so many jobs of each status.
func (m *Monitor) retrying(ctx context.Context, most int64) ([]Retrying, error) {
	queues, err := m.usable(ctx)
	if err != nil {
		return nil, err
	}
	all := []Retrying{}
	for _, q := range queues {
		table, err := m.db.CheckQueue(q.Name)
		if err != nil {
			return nil, err
		}
		var parts []string
		var args []any
		for _, status := range []string{"available", "scheduled", "throttled", "locked"} {
			parts = append(parts, "SELECT * FROM (SELECT job_type, attempt FROM "+table+" "+m.db.SQL.Index(table, schema.ClaimIndex)+" WHERE status = ? LIMIT ?) AS some")
			args = append(args, status, most)
		}
		query := "SELECT job_type, COUNT(*) AS jobs FROM (" + strings.Join(parts, " UNION ALL ") + ") AS waiting WHERE attempt > 0 GROUP BY job_type ORDER BY job_type"
		if most == math.MaxInt64 { // nothing needs to be copied
			args, query = nil, fmt.Sprintf("SELECT job_type, COUNT(*) AS jobs FROM %s %s WHERE status IN ('available', 'scheduled', 'throttled', 'locked') AND attempt > 0"+
				" GROUP BY job_type ORDER BY job_type", table, m.db.SQL.Index(table, schema.ClaimIndex))
		}
		err = engine.Each(ctx, m.db.SQL, query, args, func(r struct {
			JobType string `db:"job_type"`
			Jobs    int64
		},
		) error {
			all = append(all, Retrying{q.Name, r.JobType, r.Jobs})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("count the jobs of %s that wait for a retry: %w", q.Name, err)
		}
	}
	return all, nil
}
