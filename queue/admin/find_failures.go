package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// failuresMost is how many kinds of failures are told apart, among the newest failuresAmong jobs.
const failuresMost, failuresAmong = 1000, 1_000_000

// Failure is jobs of one type whose errors have the same fingerprint, which leaves out numbers, ids, times and quoted paths.
type Failure struct {
	Type string `json:"job_type"`
	// Fingerprint is eight hex digits, the same in all versions of hipq.
	Fingerprint string `json:"fingerprint"`
	// Jobs is how many there are, First and Last are when the first and the last of them failed.
	Jobs  int64      `json:"jobs"`
	First texts.Time `json:"first"`
	Last  texts.Time `json:"last"`
	// Example is the newest of them, by its id, and Error the beginning of its error.
	Example int64  `json:"example"`
	Error   string `json:"-"`
}

// Failures are the failed jobs that a filter lets pass, by how they failed.
type Failures struct {
	// Kinds are those with the newest jobs. The kind with the most jobs comes first.
	Kinds []Failure
	// Others is how many jobs failed in yet other ways.
	Others int64
	// More says that there are older jobs, at which Failures didn't look.
	More bool
}

var failureColumns = store.Only("id", "job_type", "status", "error", "update_time")

// Failures groups failed jobs by type and fingerprint. The filter's standing is Failed by default; its Limit is of kinds, 1,000
// at most. It looks at the newest million of the jobs, reads them by the page, and locks nothing.
func (q *Queue) Failures(ctx context.Context, by Filter) (Failures, error) {
	by.Status = cmp.Or(by.Status, Failed)
	most := min(cmp.Or(max(by.Limit, 0), failuresMost), failuresMost)
	ids, err := q.newest(ctx, by, failuresAmong+1)
	if err != nil {
		return Failures{}, err
	}
	found, at := Failures{More: len(ids) > failuresAmong}, map[[2]string]int{}
	err = q.each(ctx, by, ids[:min(len(ids), failuresAmong)], failureColumns, func(j *job.Job) error {
		key := [2]string{j.Type, texts.Fingerprint(j.Error)}
		n, known := at[key]
		switch {
		case by.Fingerprint != "" && by.Fingerprint != key[1]:
			return nil
		case !known && len(found.Kinds) == most:
			found.Others++
			return nil
		case !known:
			n, at[key] = len(found.Kinds), len(found.Kinds)
			beginning := strings.ToValidUTF8(j.Error[:min(len(j.Error), texts.FingerprintBytes)], "")
			found.Kinds = append(found.Kinds, Failure{
				Type: j.Type, Fingerprint: key[1], First: texts.Time{Time: j.UpdateTime}, Example: j.ID, Error: beginning,
			})
		}
		f := &found.Kinds[n]
		f.Jobs++
		f.First.Time = slices.MinFunc([]time.Time{f.First.Time, j.UpdateTime}, time.Time.Compare)
		f.Last.Time = slices.MaxFunc([]time.Time{f.Last.Time, j.UpdateTime}, time.Time.Compare)
		return nil
	})
	slices.SortStableFunc(found.Kinds, func(a, b Failure) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return found, err
}
