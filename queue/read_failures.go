package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/fingerprint"
	"github.com/hipq/hipq/queue/job"
)

const (
	// failuresMost is how many kinds of failures of a queue are told apart, at most.
	failuresMost = 1000
	// failuresAmong is how many jobs Failures looks at, at most.
	failuresAmong = 1_000_000
	// failuresPage is how many rows one query reads for the texts of their errors.
	failuresPage = 500
)

// Failure is jobs of one type that failed in the same way: their errors have the same fingerprint, which is the error's text
// without numbers, ids, times and quoted paths.
type Failure struct {
	Type string
	// Fingerprint is eight hex digits, the same in all versions of hipq.
	Fingerprint string
	// Jobs is how many they are.
	Jobs int64
	// First and Last are when the first and the last of them failed.
	First, Last time.Time
	// Example is the newest of them, by its id, and Error the beginning of its error.
	Example int64
	Error   string
}

// Failures are the failed jobs that a filter lets pass, by how they failed.
type Failures struct {
	// Kinds are the newest, by the ids of their newest jobs: that with the most jobs first.
	Kinds []Failure
	// Others is how many jobs failed in yet other ways.
	Others int64
	// More says that there are older jobs at which nobody has looked.
	More bool
}

// Failures groups failed jobs by type and fingerprint. The filter's standing is Failed if it has none; its Limit is of kinds,
// of which there are 1,000 at most. It looks at the newest million of the jobs, reads them by the page, and locks nothing.
func (q *Queue) Failures(ctx context.Context, by Filter) (Failures, error) {
	by.Standing = cmp.Or(by.Standing, Failed)
	most := failuresMost
	if by.Limit > 0 {
		most = min(most, by.Limit)
	}
	by.Limit = failuresAmong + 1
	var found Failures
	at, looked := map[[2]string]int{}, 0
	err := q.eachError(ctx, by, func(r erred) bool {
		if looked++; looked > failuresAmong {
			found.More = true
			return false
		}
		key := [2]string{r.Type, r.fingerprint}
		n, ok := at[key]
		switch {
		case !ok && len(found.Kinds) == most:
			found.Others++
			return true
		case !ok:
			n = len(found.Kinds)
			at[key] = n
			found.Kinds = append(found.Kinds, Failure{
				Type: r.Type, Fingerprint: r.fingerprint, First: r.UpdateTime.Time, Last: r.UpdateTime.Time, Example: r.ID, Error: r.Error,
			})
		}
		f := &found.Kinds[n]
		f.Jobs++
		if r.UpdateTime.Before(f.First) {
			f.First = r.UpdateTime.Time
		}
		if r.UpdateTime.After(f.Last) {
			f.Last = r.UpdateTime.Time
		}
		return true
	})
	if err != nil {
		return Failures{}, err
	}
	slices.SortStableFunc(found.Kinds, func(a, b Failure) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return found, nil
}

// erred is what is read of a job for its error's sake.
type erred struct {
	ID          int64
	Type        string `db:"job_type"`
	Error       string
	UpdateTime  engine.Time `db:"update_time"`
	fingerprint string
}

// eachError calls f with each job that the filter lets pass and that has an error, the newest first, as long as f says so. The
// filter's Limit is of jobs of any fingerprint.
func (q *Queue) eachError(ctx context.Context, by Filter, f func(erred) bool) error {
	ids, err := q.findIDs(ctx, by)
	if err != nil {
		return err
	}
	slices.Reverse(ids)
	where, _, args := q.where(by)
	for page := range slices.Chunk(ids, failuresPage) {
		all := slices.Clone(args) // what has become another meanwhile is left out
		for _, id := range page {
			all = append(all, id)
		}
		query := fmt.Sprintf("SELECT id, job_type, SUBSTR(error, 1, %d) AS error, %s FROM %s %s%s AND id IN %s ORDER BY id DESC",
			fingerprint.Read, q.db.TimeColumns("update_time"), q.table, q.db.ByID, where, engine.In(len(page)))
		var rows []erred
		if err := q.db.SelectContext(ctx, &rows, query, all...); err != nil {
			return fmt.Errorf("read the errors of %s: %w", q.Name, err)
		}
		for _, r := range rows {
			if r.Error == job.None && by.Standing != Failed && by.Standing != Closed {
				continue // nothing is wrong with it
			}
			r.fingerprint = fingerprint.Of(r.Error)
			if (by.Fingerprint == "" || r.fingerprint == by.Fingerprint) && !f(r) {
				return nil
			}
		}
	}
	return nil
}

// findByFingerprint is FindIDs for a filter with a fingerprint.
func (q *Queue) findByFingerprint(ctx context.Context, by Filter) (ids []int64, err error) {
	limit := by.Limit
	by.Limit = 0
	err = q.eachError(ctx, by, func(r erred) bool {
		ids = append(ids, r.ID)
		return len(ids) != limit
	})
	slices.Reverse(ids)
	return ids, err
}
