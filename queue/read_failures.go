package queue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
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
	most := min(cmp.Or(max(by.Limit, 0), failuresMost), failuresMost)
	by.Limit = failuresAmong + 1
	var found Failures
	at, looked := map[[2]string]int{}, 0
	err := q.eachError(ctx, by, func(r erred) error {
		if looked++; looked > failuresAmong {
			found.More = true
			return errEnough
		}
		key := [2]string{r.Type, r.fingerprint}
		n, ok := at[key]
		if !ok {
			if n = len(found.Kinds); n == most {
				found.Others++
				return nil
			}
			at[key] = n
			found.Kinds = append(found.Kinds, Failure{
				Type: r.Type, Fingerprint: r.fingerprint, First: r.UpdateTime.Time, Example: r.ID, Error: r.Error,
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
		return nil
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
	Type, Error string
	UpdateTime  engine.Time
	fingerprint string
}

// errEnough ends a query of whose rows nobody wants more.
var errEnough = errors.New("enough")

// eachError calls f with each job that the filter lets pass and that has an error, the newest first, until f gives an error:
// errEnough just ends it. The filter's Limit is of jobs of any fingerprint.
func (q *Queue) eachError(ctx context.Context, by Filter, f func(erred) error) error {
	ids, err := q.newest(ctx, by)
	if err != nil {
		return err
	}
	columns := fmt.Sprintf("id, job_type, SUBSTR(error, 1, %d), %s", fingerprint.Read, q.db.TimeColumn("update_time"))
	err = q.eachRow(ctx, by, columns, ids, func(row *sql.Rows) error {
		var r erred
		err := row.Scan(&r.ID, &r.Type, &r.Error, &r.UpdateTime)
		if err != nil || r.Error == job.None && by.Standing != Failed && by.Standing != Closed {
			return err // or nothing is wrong with it
		}
		if r.fingerprint = fingerprint.Of(r.Error); by.Fingerprint == "" || r.fingerprint == by.Fingerprint {
			return f(r)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
