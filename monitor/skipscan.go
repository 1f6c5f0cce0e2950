package monitor

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// skipScan counts jobs in the claim index if a full count would take too long. It goes from range to range, counts each
// up to a number, and skips the rest.
type skipScan struct {
	jobs
	m       *Monitor
	lookups int
}

// lookupsMost is how many lookups a scan may make. Each takes a fraction of a millisecond.
const lookupsMost = 2000

// errTooMany: the scan isn't done after lookupsMost lookups, so a read of the whole index is faster.
var errTooMany = errors.New("the jobs are in too many ranges of the index")

// first reads the first row, if there is one.
func (s *skipScan) first(ctx context.Context, into any, columns, where string, args ...any) (found bool, err error) {
	if s.lookups++; s.lookups > lookupsMost {
		return false, errTooMany
	}
	err = s.m.db.SQL.GetContext(ctx, into, "SELECT "+columns+" FROM "+s.table+" "+s.claim+" WHERE "+where+" LIMIT 1", args...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// ranges calls f with each range of a status until f returns an error.
func (s *skipScan) ranges(ctx context.Context, status string, f func(schema.Range) error) error {
	r := schema.Range{Status: status}
	for {
		found, err := false, error(nil)
		if r.Part != "" {
			found, err = s.first(ctx, &r, schema.RangeColumns, "status = ? AND shard = ? AND part = ? AND job_type > ? ORDER BY job_type", r.Args()...)
		}
		if err == nil && !found && r.Part != "" {
			found, err = s.first(ctx, &r, schema.RangeColumns, "status = ? AND shard = ? AND part > ? ORDER BY part, job_type", status, r.Place, r.Part)
		}
		if err == nil && !found {
			found, err = s.first(ctx, &r, schema.RangeColumns, "status = ? AND shard > ? ORDER BY shard, part, job_type", status, r.Place)
		}
		if err != nil || !found {
			return err
		}
		if err := f(r); err != nil {
			return err
		}
	}
}

// count counts the jobs of a range with a further condition. The last parameter is the maximum count.
func (s *skipScan) count(ctx context.Context, r schema.Range, and string, args ...any) (n int64, err error) {
	args = append(r.Args(), args...)
	err = s.m.db.SQL.GetContext(ctx, &n, "SELECT COUNT(*) FROM (SELECT id FROM "+s.table+" "+s.claim+" WHERE "+schema.InRange+and+" LIMIT ?) AS counted", args...)
	return n, err
}

// oldest returns the earliest time in a range. The first job of each rank has the earliest time of its rank.
func (s *skipScan) oldest(ctx context.Context, r schema.Range) (earliest engine.Time, err error) {
	args, beyond := r.Args(), ""
	for {
		var of struct {
			Rank sql.NullInt64 `db:"run_rank"` // NULL, which sorts first, if plain SQL leaves the rank to the job type
			At   engine.Time   `db:"scheduled_run_time"`
		}
		found, err := s.first(ctx, &of, "run_rank, scheduled_run_time", schema.InRange+beyond+" ORDER BY run_rank, scheduled_run_time", args...)
		if err != nil || !found {
			return earliest, err
		}
		if earliest.IsZero() || of.At.Before(earliest.Time) {
			earliest = of.At
		}
		args, beyond = args[:4], " AND run_rank IS NOT NULL"
		if of.Rank.Valid {
			args, beyond = append(args, of.Rank.Int64), " AND run_rank > ?"
		}
	}
}

// due counts the jobs that are due at a time: available, held by a full throttle group, or submitted by plain SQL and
// not ingested yet. It counts up to most+1 jobs of each type.
func (s *skipScan) due(ctx context.Context, at engine.Time, most int64) (all []jobCount, err error) {
	counted := map[string]int64{}
	for _, status := range []string{"available", "throttled", "submitted"} {
		err := s.ranges(ctx, status, func(r schema.Range) error {
			oldest, err := s.oldest(ctx, r)
			if err != nil || oldest.After(at.Time) { // no job of the range is due
				return err
			}
			c := jobCount{JobType: r.JobType, Place: r.Place, Status: status, Oldest: oldest}
			if room := most + 1 - counted[r.JobType]; room > 0 {
				c.N, err = s.count(ctx, r, " AND scheduled_run_time <= ?", at, room)
			}
			counted[r.JobType] += c.N
			all = append(all, c)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// failed counts the failed jobs of each type, up to most+1 in each range.
func (s *skipScan) failed(ctx context.Context, most int64) (all []jobCount, err error) {
	err = s.ranges(ctx, "failed", func(r schema.Range) error {
		n, err := s.count(ctx, r, "", most+1)
		all = append(all, jobCount{JobType: r.JobType, N: n})
		return err
	})
	return all, err
}
