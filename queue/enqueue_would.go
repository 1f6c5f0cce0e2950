package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/hipq/hipq/queue/job"
)

// WouldEnqueue says what EnqueueMany would do now, and writes nothing: it refuses the same, and what it returns has the ID 0 for a
// job that would be added. It asks the database only what reads do, so another may come first. It may be repeated.
func (q *Queue) WouldEnqueue(ctx context.Context, jobs []job.New) ([]Added, error) {
	prepared, err := q.prepare(jobs)
	if err != nil {
		return nil, err
	}
	would, twin := make([]Added, 0, len(jobs)), map[[2]string]bool{}
	for len(prepared) > 0 {
		n := chunk(prepared)
		batch, err := q.wouldAdd(ctx, prepared[:n], len(would), twin)
		would = append(would, batch...)
		if err != nil {
			return would, fmt.Errorf("enqueue in %s: %w", q.Name, err)
		}
		prepared = prepared[n:]
	}
	return would, nil
}

// wouldAdd is what add would do with the jobs of one statement. Before them are others, and those that would be added have left
// their types and keys in twin.
func (q *Queue) wouldAdd(ctx context.Context, jobs []job.New, before int, twin map[[2]string]bool) ([]Added, error) {
	which := make([]int, len(jobs))
	for i, j := range jobs {
		t, err := q.typeOf(ctx, q.db, j.Type)
		if err != nil {
			return nil, err
		}
		which[i], jobs[i] = i, j.WithDefaults(t)
	}
	if err := q.checkWeights(ctx, q.db, jobs); err != nil {
		return nil, err
	}
	live, err := q.live(ctx, q.db, jobs, which, "")
	if err != nil {
		return nil, err
	}
	would := make([]Added, 0, len(jobs))
	for i, j := range jobs {
		key, a := typeAndKey(j), Added{Key: j.Key}
		if a.ID, a.Duplicate = live[key]; twin[key] {
			a.Duplicate = true
		}
		switch {
		case !a.Duplicate:
			twin[key] = true
		case j.OnDuplicate == job.RefuseDuplicate:
			return would, &DuplicateError{Index: before + i, ID: a.ID, Key: j.Key}
		case j.OnDuplicate == job.ReplaceDuplicate && a.ID != 0:
			there, err := q.Get(ctx, a.ID)
			if errors.Is(err, ErrNotFound) { // it has ended meanwhile, and was discarded
				a.ID, a.Duplicate = 0, false
				break
			}
			if err != nil {
				return would, err
			}
			a.Replaced = there.State() == job.Initial
		case j.OnDuplicate == job.ReplaceDuplicate:
			a.Replaced = true
		}
		would = append(would, a)
	}
	return would, nil
}
