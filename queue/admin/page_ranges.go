package admin

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/schema"
)

// stretch is a part of a range in which jobs are in the order of their run times.
type stretch struct {
	schema.Range
	Rank sql.NullInt64 `db:"run_rank"` // NULL if plain SQL leaves it to the job type
}

func (s stretch) where() (w engine.Where) {
	w.And(schema.InRange, s.Args()...)
	if s.Rank.Valid {
		w.And("run_rank = ?", s.Rank.Int64)
	} else {
		w.And("run_rank IS NULL")
	}
	return w
}

// dueNow are the due jobs that rounds may take.
const dueNow Status = "available"

// stored are the statuses of the rows that may have a status.
var stored = map[Status][]string{
	Initial: toStartStatuses, Retry: toStartStatuses, Running: {"running", "answered", "awaiting"}, Error: {"deciding", "undecided"},
	Final: {"finished", "failed", "closed"}, Due: {"available", "submitted", "scheduled"}, Held: {"throttled"}, Scheduled: {"submitted", "scheduled"},
	Locked: {"locked"}, Waiting: {"awaiting"}, Failed: {"failed"}, Closed: {"closed"}, Finished: {"finished"}, dueNow: {"available"},
}

var toStartStatuses = []string{"submitted", "available", "scheduled", "throttled", "locked"}

// Ranges remembers for a while which ranges of the index a queue has, because each costs a statement. It is safe for concurrent
// use.
type Ranges struct{ known sync.Map }

type remembered struct {
	until time.Time
	all   []stretch
}

// rangeAge is how long ranges are remembered for each of them, and rangesAge is the longest time.
const rangeAge, rangesAge = 2 * time.Second, time.Minute

// Forget forgets all, because jobs of new types or priorities may have been added.
func (r *Ranges) Forget() { r.known.Clear() }

func (r *Ranges) get(of string) ([]stretch, bool) {
	k, _ := r.known.Load(of)
	known, _ := k.(remembered)
	return known.all, time.Now().Before(known.until)
}

func (r *Ranges) set(of string, all []stretch) {
	if len(all) > 0 {
		r.known.Store(of, remembered{time.Now().Add(min(time.Duration(len(all)+1)*rangeAge, rangesAge)), all})
	}
}

// stretchesMost is how many stretches one query joins: SQLite takes 500 parts. With more, such as one for each throttle group,
// the statements that find them would cost too much as well.
const stretchesMost = 150

// stretches returns the stretches of a filter's status. If it returns more than stretchesMost, they are not all, and some may
// not match. It jumps from one to the next, because MariaDB reads a whole index for a GROUP BY.
func (q *Queue) stretches(ctx context.Context, by Filter, known *Ranges) (all []stretch, err error) {
	known = cmp.Or(known, &Ranges{})
	for _, status := range stored[by.Status] {
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
func (q *Queue) stretchesOf(ctx context.Context, status string) (all []stretch, err error) {
	from := " FROM " + q.s.Table() + " " + q.s.ClaimIndex()
	// MariaDB would sort if a column with one value were in ORDER BY.
	s, wheres, args := stretch{}, []string{"status = ? ORDER BY shard, part, job_type, run_rank"}, []any{status}
	for {
		parts := texts.Map(wheres, func(where string) string {
			return "SELECT * FROM (SELECT " + schema.RangeColumns + ", run_rank" + from + " WHERE " + where + " LIMIT 1) AS a"
		})
		err := q.s.DB().SQL.GetContext(ctx, &s, strings.Join(parts, " UNION ALL ")+" LIMIT 1", args...)
		if errors.Is(err, sql.ErrNoRows) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, s); len(all) > stretchesMost {
			return all, nil
		}
		rank, ranks := "run_rank IS NOT NULL", []any(nil)
		if s.Rank.Valid {
			rank, ranks = "run_rank > ?", []any{s.Rank.Int64}
		}
		wheres = []string{
			schema.InRange + " AND " + rank + " ORDER BY run_rank",
			"status = ? AND shard = ? AND part = ? AND job_type > ? ORDER BY job_type, run_rank",
			"status = ? AND shard = ? AND part > ? ORDER BY part, job_type, run_rank", "status = ? AND shard > ? ORDER BY shard, part, job_type, run_rank",
		}
		args = slices.Concat(s.Args(), ranks, s.Args(), []any{status, s.Place, s.Part, status, s.Place})
	}
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
func (q *Queue) merged(ctx context.Context, by Filter, stretches []stretch, after *place, oldest bool) (all []place, err error) {
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
		w := s.where()
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
