package store

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// ForgetTypes makes a queue reread its registration when it is next needed.
func ForgetTypes(q *Queue) { q.known.Store(nil) }

// IsStale says whether candidates are read from their heads again that were read so long ago, in a read that took so long.
func IsStale(ago, took time.Duration) bool {
	return (&Candidates{readAt: time.Now().Add(-ago), readFor: took}).stale()
}

// PlaceOf is the place in the table of a job to add.
func PlaceOf(q *Queue, j job.Params) int {
	j.ShardKey = cmp.Or(j.ShardKey, job.None)
	return q.Division().PlaceOf(j.Type, j.Key, j.ShardKey, []byte(j.Data))
}

// enqueue adds jobs.
func (q *Queue) enqueue(tb testing.TB, jobs ...job.Params) (added []job.Added) {
	tb.Helper()
	prepared, err := q.Prepare(jobs)
	for some := range slices.Chunk(prepared, 500) {
		if err == nil {
			err = q.db.SQL.Tx(tb.Context(), func(tx *engine.Tx) error {
				now, err := q.Add(tb.Context(), tx, some, "")
				added = append(added, now...)
				return err
			})
		}
	}
	dbtest.OK(tb, err)
	return added
}
