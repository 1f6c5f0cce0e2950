package monitor

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/hipq/hipq/internal/engine"
)

// dive measures jobs in the index by which they are claimed, where counting them all would take too long: it goes from kind to kind,
// counts each up to a number, and reads of all others nothing.
type dive struct {
	m            *Monitor
	table, claim string
	looks        int
}

// kind is what of a status lies together in the index.
type kind struct {
	Place   int `db:"shard"`
	Part    string
	JobType string `db:"job_type"`
}

const ofKind = "status = ? AND shard = ? AND part = ? AND job_type = ?"

func (k kind) args(status string) []any { return []any{status, k.Place, k.Part, k.JobType} }

// looksMost is how often a dive looks into the index, a fraction of a millisecond each time.
const looksMost = 2000

// errTooDeep means that a dive has looked looksMost times, and has not found all: to read all is quicker.
var errTooDeep = errors.New("the jobs are of too many kinds")

// first reads the first row that there is, if there is one.
func (d *dive) first(ctx context.Context, into any, columns, where string, args ...any) (found bool, err error) {
	if d.looks++; d.looks > looksMost {
		return false, errTooDeep
	}
	err = d.m.db.GetContext(ctx, into, "SELECT "+columns+" FROM "+d.table+" "+d.claim+" WHERE "+where+" LIMIT 1", args...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// kinds calls f with each kind of a status, and ends with f's first error.
func (d *dive) kinds(ctx context.Context, status string, f func(kind) error) error {
	const columns = "shard, part, job_type"
	var k kind
	for {
		found, err := false, error(nil)
		if k.Part != "" {
			found, err = d.first(ctx, &k, columns, "status = ? AND shard = ? AND part = ? AND job_type > ? ORDER BY job_type", k.args(status)...)
		}
		if err == nil && !found && k.Part != "" {
			found, err = d.first(ctx, &k, columns, "status = ? AND shard = ? AND part > ? ORDER BY part, job_type", status, k.Place, k.Part)
		}
		if err == nil && !found {
			found, err = d.first(ctx, &k, columns, "status = ? AND shard > ? ORDER BY shard, part, job_type", status, k.Place)
		}
		if err != nil || !found {
			return err
		}
		if err := f(k); err != nil {
			return err
		}
	}
}

// count counts those of a kind, under a condition, up to most.
func (d *dive) count(ctx context.Context, status string, k kind, and string, most int64, args ...any) (n int64, err error) {
	args = slices.Concat(k.args(status), args, []any{most})
	err = d.m.db.GetContext(ctx, &n, "SELECT COUNT(*) FROM (SELECT id FROM "+d.table+" "+d.claim+" WHERE "+ofKind+and+" LIMIT ?) AS counted", args...)
	return n, err
}

// oldest is the earliest time of those of a kind: the first of each rank has that of its rank.
func (d *dive) oldest(ctx context.Context, status string, k kind) (earliest engine.Time, err error) {
	args, beyond := k.args(status), ""
	for {
		var of struct {
			Rank sql.NullInt64 `db:"run_rank"` // NULL comes first: what plain SQL has left to the job type
			At   engine.Time   `db:"scheduled_run_time"`
		}
		found, err := d.first(ctx, &of, "run_rank, scheduled_run_time", ofKind+beyond+" ORDER BY run_rank, scheduled_run_time", args...)
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

// due measures the jobs that are due at a time: available, held back by a full group, or inserted by plain SQL and not accepted
// yet. Of each type it counts up to most and one more.
func (d *dive) due(ctx context.Context, at engine.Time, most int64) (all []standing, err error) {
	counted := map[string]int64{}
	for _, status := range []string{"available", "throttled", "submitted"} {
		err := d.kinds(ctx, status, func(k kind) error {
			oldest, err := d.oldest(ctx, status, k)
			if err != nil || oldest.After(at.Time) { // all are for later
				return err
			}
			s := standing{JobType: k.JobType, Place: k.Place, Status: status, Oldest: oldest}
			if room := most + 1 - counted[k.JobType]; room > 0 {
				s.N, err = d.count(ctx, status, k, " AND scheduled_run_time <= ?", room, at)
			}
			counted[k.JobType] += s.N
			all = append(all, s)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
