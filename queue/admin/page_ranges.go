package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// Ranges remembers for a while which ranges of the index a queue has, because each costs a statement. It is safe for concurrent
// use.
type Ranges struct{ known sync.Map }

type remembered struct {
	until time.Time
	all   []schema.Stretch
}

// rangeAge is how long ranges are remembered for each of them, and rangesAge is the longest time.
const rangeAge, rangesAge = 2 * time.Second, time.Minute

// Forget forgets all, because jobs of new types or priorities may have been added.
func (r *Ranges) Forget() { r.known.Clear() }

func (r *Ranges) get(of string) ([]schema.Stretch, bool) {
	k, _ := r.known.Load(of)
	known, _ := k.(remembered)
	return known.all, time.Now().Before(known.until)
}

func (r *Ranges) set(of string, all []schema.Stretch) {
	if len(all) > 0 {
		r.known.Store(of, remembered{time.Now().Add(min(time.Duration(len(all)+1)*rangeAge, rangesAge)), all})
	}
}

// stretchesMost is how many stretches one query joins: SQLite takes 500 parts. With more, such as one for each throttle group,
// the statements that find them would cost too much as well.
const stretchesMost = 150

// stretches returns the stretches of a filter's status. If it returns more than stretchesMost, they are not all, and some may
// not match.
func (q *Queue) stretches(ctx context.Context, by Filter, known *Ranges) (all []schema.Stretch, err error) {
	known = cmp.Or(known, &Ranges{})
	for _, status := range by.Status.rows() {
		name := q.s.Name + "/" + status
		some, ok := known.get(name)
		if !ok {
			if some, err = q.stretchesOf(ctx, status); err != nil {
				return nil, err
			}
			known.set(name, some)
		}
		if len(some) > stretchesMost {
			return some, nil
		}
		for _, s := range some {
			if (by.Type == "" || s.JobType == by.Type) && (by.Place == 0 || s.Place == by.Place) {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// stretchesOf returns up to stretchesMost and one more.
func (q *Queue) stretchesOf(ctx context.Context, status string) ([]schema.Stretch, error) {
	return q.s.DB().Stretches(ctx, q.s.Table(), status, stretchesMost)
}

// lookByTime looks at the jobs of a status in the order of their run times, which the index has within each stretch. With many
// stretches, it looks by ID.
func (q *Queue) lookByTime(ctx context.Context, by Filter, o PageOptions, take func([]place) (int, error)) (next string, looked int64, err error) {
	deadline := time.Now().Add(o.Within)
	stretches, err := q.stretches(ctx, by, o.Ranges)
	switch many, byID := len(stretches) > stretchesMost, strings.HasPrefix(o.After, "/"); { // as the page before
	case many && o.After != "" && !byID:
		return "", looked, ErrPage
	case many || byID:
		return q.lookByID(ctx, by, o, take)
	case err != nil || len(stretches) == 0:
		return "", looked, err
	}
	after, err := parsePlace(o.After)
	if err != nil {
		return "", looked, err
	}
	for by.Limit = min(by.Limit+1, 2000); ; by.Limit = min(4*by.Limit, 2000) {
		some, err := q.merged(ctx, by, stretches, after, o.Oldest)
		if err != nil || len(some) == 0 {
			return "", looked, err
		}
		last := some[len(some)-1]
		looked += int64(len(some))
		matching := slices.DeleteFunc(slices.Clone(some), func(p place) bool {
			return by.Status == Retry && p.Attempt == 0 || by.Status == Initial && p.Attempt > 0
		})
		end, err := take(matching)
		switch {
		case err != nil:
			return "", looked, err
		case len(some) < by.Limit && (end < 0 || matching[end-1] == last):
			return "", looked, nil
		case end > 0:
			return matching[end-1].String(), looked, nil
		case time.Now().After(deadline):
			return last.String(), looked, nil
		}
		after = &last
	}
}

// merged returns the next places of all stretches together.
func (q *Queue) merged(ctx context.Context, by Filter, stretches []schema.Stretch, after *place, oldest bool) (all []place, err error) {
	order, beyond := " DESC", "<"
	if oldest {
		order, beyond = "", ">"
	}
	var parts []string
	var args []any
	add := func(w engine.Where) {
		parts = append(parts, "SELECT * FROM (SELECT id, "+q.s.DB().SQL.TimeText("t.scheduled_run_time")+" AS at, attempt FROM "+q.s.Table()+" AS t "+q.s.ClaimIndex()+w.SQL()+
			" ORDER BY t.scheduled_run_time"+order+", id"+order+" LIMIT ?) AS a")
		args = append(append(args, w.Args...), by.Limit)
	}
	now := "(SELECT " + q.s.DB().SQL.NowSQL + ")"
	for _, s := range stretches {
		w := s.Where()
		switch {
		case by.Status == Due && s.Status != "available":
			w.And("t.scheduled_run_time <= " + now)
		case by.Status == Scheduled:
			w.And("t.scheduled_run_time > " + now)
		}
		if after == nil {
			add(w)
			continue
		}
		same := w.Clone()
		same.And("t.scheduled_run_time = ?", after.At)
		same.And("id "+beyond+" ?", after.ID)
		add(same)
		w.And("t.scheduled_run_time "+beyond+" ?", after.At)
		add(w)
	}
	err = q.s.DB().SQL.SelectContext(ctx, &all, "SELECT * FROM ("+strings.Join(parts, " UNION ALL ")+") AS a ORDER BY at"+order+", id"+order+" LIMIT ?", append(args, by.Limit)...)
	return all, err
}
