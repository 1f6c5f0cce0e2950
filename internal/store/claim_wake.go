package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// place is a group in a shard, by the shard's number in the tables.
type place struct {
	shard int
	group string
}

// freed are the groups in which the end of these attempts has made room.
func freed(jobs ...*job.Job) map[place]bool {
	all := map[place]bool{}
	for _, j := range jobs {
		if j.ThrottleFactor > 0 && j.Group != job.None && j.Group != "" {
			all[place{j.Place, j.Group}] = true
		}
	}
	return all
}

// LetIn puts a job of the groups in which the end of these jobs has made room into the line, where the next round looks. It
// has the turn of their shards first: a round that has it may be about to have jobs held, because it saw these groups full.
func (q *Queue) LetIn(ctx context.Context, tx *engine.Tx, ended ...*job.Job) error {
	groups := freed(ended...)
	if err := q.takeTurnsOf(ctx, tx, groups); err != nil {
		return err
	}
	return q.letIn(ctx, tx, groups)
}

// takeTurnsOf takes the turns of the groups' shards, and of others. A database with a single writer needs none.
func (q *Queue) takeTurnsOf(ctx context.Context, tx *engine.Tx, groups map[place]bool, others ...int) error {
	if len(groups) == 0 || q.db.SQL.Writers == 1 {
		return nil
	}
	for p := range groups {
		if !slices.Contains(others, p.shard) {
			others = append(others, p.shard)
		}
	}
	return q.TakeTurns(ctx, tx, others...)
}

// letIn puts the first job that each group holds into the line.
func (q *Queue) letIn(ctx context.Context, tx *engine.Tx, groups map[place]bool) error {
	all := slices.SortedFunc(maps.Keys(groups), func(a, b place) int { return cmp.Or(cmp.Compare(a.shard, b.shard), strings.Compare(a.group, b.group)) })
	for some := range slices.Chunk(all, rangesMax) {
		ids, err := q.firstHeld(ctx, tx, some)
		if err == nil && len(ids) > 0 && tx.SkipLocked != "" {
			ids, err = q.IDs(ctx, tx, "SELECT id FROM "+q.table+" "+q.db.SQL.ByID+" WHERE id IN "+notAlone(len(ids))+" AND status = 'throttled' "+tx.SkipLocked, ids...)
		}
		if err == nil && len(ids) > 0 {
			now, stamp := tx.Stamp()
			err = tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET asked_time = "+now+" WHERE status = 'throttled' AND id IN "+engine.In(len(ids)), append(stamp, ids...)...)
		}
		if err != nil {
			return fmt.Errorf("let held jobs of %s in: %w", q.Name, err)
		}
	}
	return nil
}

// firstHeld returns the first job of each group that holds some. The index has a group's jobs by type: each query goes on
// with the next type of each group.
func (q *Queue) firstHeld(ctx context.Context, tx *engine.Tx, groups []place) (ids []any, err error) {
	one := "SELECT n, job_type, " + q.db.PositionOf("g") + " FROM (SELECT %d AS n, job_type, " + schema.ClaimOrder + " FROM " + q.table + " " + q.ClaimIndex() +
		" WHERE status = 'throttled' AND shard = ? AND part = ? AND job_type > ? ORDER BY job_type, " + schema.ClaimOrder + " LIMIT 1) AS g"
	first, next := map[int]schema.Position{}, map[int]string{} // by group: its first job, and the type to go on behind
	for i := range groups {
		next[i] = ""
	}
	for len(next) > 0 {
		var queries []string
		var args []any
		for _, i := range slices.Sorted(maps.Keys(next)) {
			queries = append(queries, fmt.Sprintf(one, i))
			args = append(args, groups[i].shard, groups[i].group, next[i])
		}
		clear(next)
		var i int
		var jobType string
		var at schema.Position
		err := tx.Read(ctx, engine.Query{SQL: strings.Join(queries, " UNION ALL "), Args: args, Scan: engine.Into(func() {
			if was, ok := first[i]; !ok || at.Compare(was) < 0 {
				first[i] = at
			}
			next[i] = jobType
		}, append([]any{&i, &jobType}, at.Into()...)...)})
		if err != nil {
			return nil, err
		}
	}
	for _, at := range first {
		ids = append(ids, at.ID)
	}
	return ids, nil
}

// Groups whose room no transaction noted, because rows were changed by hand, or the first job that a group held was locked by another
// transaction, are found by a search that goes on for a page now and then.
const overlookedEvery, overlookedPage = 10 * time.Second, 50

// letInOverlooked lets held jobs of the next groups in, if the groups may have room.
func (q *Queue) letInOverlooked(ctx context.Context) (more bool, err error) {
	from := q.overlooked.begin(overlookedEvery)
	switch all := q.ClaimIndex() + " WHERE status = 'throttled'"; { // limits were removed from the config
	case !q.TakesTurns():
		return q.makeAvailable(ctx, job.StatusThrottled, all)
	case q.ThrottleGroups == nil:
		return q.makeAvailable(ctx, job.StatusThrottled, all+" AND part <> 'line'")
	default: // what was held by hand, in no group
		if more, err = q.makeAvailable(ctx, job.StatusThrottled, all+" AND"+q.inShards()+" AND part = 'NONE'"); err != nil {
			return false, err
		}
	}
	at, read := from, 0
	err = q.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		at, read = from, 0
		groups := map[place]bool{}
		var parts []any
		for len(groups) < overlookedPage {
			var next struct {
				Shard int
				Part  string
			}
			query := "SELECT shard, part FROM " + q.table + " " + q.ClaimIndex() + " WHERE status = 'throttled' AND part <> 'line' AND"
			err := tx.GetContext(ctx, &next, query+" shard = ? AND part > ? ORDER BY shard, part LIMIT 1", at.shard, at.group)
			if errors.Is(err, sql.ErrNoRows) {
				err = tx.GetContext(ctx, &next, query+" shard > ? ORDER BY shard, part LIMIT 1", at.shard)
			}
			if errors.Is(err, sql.ErrNoRows) {
				at = place{}
				break
			}
			if err != nil {
				return err
			}
			at = place{next.Shard, next.Part}
			groups[at], parts = true, append(parts, at.group)
		}
		used := map[place]int{}
		if len(parts) > 0 {
			from := "SELECT shard, throttle_group, throttle_factor + 0.0 FROM " + q.table + " " + q.ClaimIndex() + " WHERE status "
			query := from + "IN ('locked', 'running', 'answered') UNION ALL " + from + "= 'awaiting' AND part IN " + engine.In(len(parts))
			err := tx.Read(ctx, engine.Query{SQL: query, Args: parts, Scan: engine.EachRow(func(row *sql.Rows) error {
				var p place
				var factor sql.NullFloat64
				err := row.Scan(&p.shard, &p.group, &factor)
				used[p] = int(min(float64(used[p])+factor.Float64, math.MaxInt32))
				read++
				return err
			})})
			if err != nil {
				return err
			}
		}
		maps.DeleteFunc(groups, func(p place, _ bool) bool { limit := q.LimitOf(p.group); return limit > 0 && used[p] >= limit })
		return q.letIn(ctx, tx, groups)
	})
	q.overlooked.rest(at, read, overlookedEvery)
	return more, texts.Wrap(err, "look for held jobs of %s", q.Name)
}
