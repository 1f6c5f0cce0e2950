package monitor

import (
	"context"
	"math"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
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
	// newer has, for each attempt with an error, how many of the attempts are newer than it. The newest error comes first.
	newer []int64
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

// recovered reports whether the newest attempts are so good that an error rate is over: of so many that the rate means
// 5 errors at least, those with an error are at most half of what a limit allows. Half, so that a rate near the limit doesn't
// come and go.
func (l LastAttempts) recovered(rate, limit float64) bool {
	newest := int64(min(max(enoughAttempts, math.Ceil(5/rate)), lastEnded))
	var bad float64
	for _, n := range l.newer {
		if n < newest {
			bad++
		}
	}
	return l.Ended >= newest && 2*bad <= limit*float64(newest)
}

func (l LastAttempts) enough() bool {
	return l.Ended >= enoughAttempts || len(l.failing) >= failingJobs
}

// lastAttempts adds to each type the attempts that ended in the last hour, aggregated or not. Attempts that lost their
// worker are left out because they say nothing about the handler.
func (m *Monitor) lastAttempts(ctx context.Context, s *State, of func(key) *TypeState) error {
	table := m.db.Activity()
	query := "SELECT " + m.db.SQL.TimeColumns("at") + ", state, queue, job_type, CAST(job_id AS SIGNED INTEGER) AS job_id, SUBSTR(error, 1, 400) AS error" +
		" FROM " + table + " " + m.db.SQL.ByID +
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
			last.newer = append(last.newer, last.Ended-1)
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
