package admin

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// walked is how many IDs newest walks at first, and walkStep is up to how many one query walks. fewest is how many entries of an index
// are always few enough to sort. typesAtOnce is how many types a statement may name, because a database takes no more parameters.
const walked, walkStep, fewest, typesAtOnce = 2000, 50_000, 20_000, 10_000

// newest returns the IDs of selected jobs, newest first; most 0 means all. An index has a status or a type, but not in the order of
// IDs: it costs what it has, and a walk through the IDs what it passes. So the walk goes on only while the index has more.
func (q *Queue) newest(ctx context.Context, by Filter, most int) (ids []int64, err error) {
	w, hint := q.where(by)
	if by.Key != "" && by.Type == "" {
		names, err := q.s.TypeNames(ctx)
		if err != nil || len(names) == 0 {
			return nil, err
		}
		for some := range slices.Chunk(names, typesAtOnce) {
			own := w.Clone()
			own.And("job_type IN "+engine.In(len(some)), engine.Args(some)...)
			found, err := q.ids(ctx, own, q.s.Index("live"), most)
			if ids = append(ids, found...); err != nil {
				return nil, err
			}
		}
		slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(b, a) })
		return ids[:min(len(ids), cmp.Or(most, len(ids)))], nil
	}
	if by.Key != "" || by.Among == 0 && (most == 0 || most > fewest) && hint != "" {
		return q.ids(ctx, w, hint, most)
	}
	low, high, err := q.span(ctx, by)
	all := high - low
	for budget, counted := int64(walked), int64(0); err == nil && low < high; budget *= 2 {
		few := max(fewest, budget)
		if budget == walked { // most find enough at once
			few = walked
		}
		if by.Among == 0 && few > counted {
			counted = few
			if index, err := q.narrow(ctx, by, counted); index != "" || err != nil {
				if err == nil {
					ids, err = q.ids(ctx, w, index, most)
				}
				return ids, err
			}
		}
		for end := high - budget; high > max(low, end); {
			step := w.Clone()
			step.And("id < ?", high)
			high = max(low, end, high-walkStep)
			step.And("id >= ?", high)
			some, err := q.ids(ctx, step, q.s.DB().SQL.ByID, max(0, most-len(ids)))
			if ids = append(ids, some...); err != nil || most > 0 && len(ids) == most {
				return ids, err
			}
			if len(some) == 0 && high > low {
				if high, err = q.endBelow(ctx, high); err != nil {
					return nil, err
				}
			}
			q.tell(all-(high-low), all)
		}
	}
	return ids, err
}

// ids returns the IDs of rows, newest first; most 0 means all.
func (q *Queue) ids(ctx context.Context, w engine.Where, hint string, most int) (ids []int64, err error) {
	query := "SELECT id FROM " + q.s.Table() + " " + hint + w.SQL() + " ORDER BY id DESC LIMIT ?"
	err = q.s.DB().SQL.SelectContext(ctx, &ids, query, append(w.Args, cmp.Or(most, math.MaxInt))...)
	return ids, texts.Wrap(err, "find jobs of %s", q.s.Name)
}

// span returns the IDs among which the selected jobs are: low, and one above the last. A row with the highest possible ID isn't
// among them.
func (q *Queue) span(ctx context.Context, by Filter) (low, high int64, err error) {
	from, ends := " FROM "+q.s.Table(), struct{ Low, High int64 }{}
	// SQLite reads all of the table for both at once
	query := "SELECT COALESCE((SELECT MIN(id)" + from + "), 1) AS low, COALESCE((SELECT MAX(id)" + from + "), 0) AS high"
	err = q.s.DB().SQL.GetContext(ctx, &ends, query)
	if ends.High = min(ends.High, math.MaxInt64-1) + 1; err == nil && by.Among > 0 {
		err = q.s.DB().SQL.GetContext(ctx, &ends.Low, "SELECT COALESCE(MIN(id), 1) FROM (SELECT id"+from+" ORDER BY id DESC LIMIT ?) AS newest", by.Among)
	}
	if err == nil && !by.Until.IsZero() { // a job is changed after it was added
		ends.High, err = q.addedBefore(ctx, by.Until.Add(addedLate), ends.Low, ends.High)
	}
	return ends.Low, ends.High, texts.Wrap(err, "find jobs of %s", q.s.Name)
}

// endBelow is one above the last ID below another: IDs may have gaps of any size.
func (q *Queue) endBelow(ctx context.Context, id int64) (end int64, err error) {
	err = q.s.DB().SQL.GetContext(ctx, &end, "SELECT COALESCE(MAX(id), 0) + 1 FROM "+q.s.Table()+" WHERE id < ?", id)
	return end, texts.Wrap(err, "find jobs of %s", q.s.Name)
}

// addedLate is how much earlier than a job before it, by ID, a job may be added: transactions take their time, and clocks differ.
const addedLate = time.Hour

// addedBefore returns the first ID from which on jobs were added at a time or later.
func (q *Queue) addedBefore(ctx context.Context, at time.Time, low, high int64) (int64, error) {
	query := "SELECT id, create_time < ? AS earlier FROM " + q.s.Table() + " " + q.s.DB().SQL.ByID + " WHERE id >= ? ORDER BY id LIMIT 1"
	for low < high {
		var next struct {
			ID      int64
			Earlier bool
		}
		mid := low + (high-low)/2
		if err := q.s.DB().SQL.GetContext(ctx, &next, query, engine.At(at), mid); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, err
		}
		if next.Earlier {
			low = next.ID + 1
		} else {
			high = mid
		}
	}
	return high, nil
}

// narrow returns an index that finds the selected jobs among at most most entries; empty if there is none.
func (q *Queue) narrow(ctx context.Context, by Filter, most int64) (index string, err error) {
	under := func(hint, where string, args ...any) bool {
		var more []int
		query := "SELECT 1 FROM " + q.s.Table() + " " + hint + " WHERE " + where + " LIMIT 1 OFFSET ?"
		if err == nil {
			err = q.s.DB().SQL.SelectContext(ctx, &more, query, append(args, most)...)
		}
		return err == nil && len(more) == 0
	}
	statuses := by.Status.rows()
	switch live := q.s.Index("live"); {
	case by.Type != "" && under(live, "job_type = ?", by.Type):
		return live, nil
	case len(statuses) > 0 && under(q.s.ClaimIndex(), "status IN "+engine.In(len(statuses)), engine.Args(statuses)...):
		return q.s.ClaimIndex(), nil
	}
	return "", texts.Wrap(err, "find jobs of %s", q.s.Name)
}
