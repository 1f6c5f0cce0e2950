package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// LetIn puts a job of the groups in which the end of these jobs has made room into the line, where the next round looks. It
// has the turn of their shards first: a round that has it may be about to have jobs held, because it saw these groups full.
func (q *Queue) LetIn(ctx context.Context, tx *engine.Tx, ended ...*job.Job) error {
	return q.letInFirst(ctx, tx, freed(ended...))
}

func (q *Queue) letInFirst(ctx context.Context, tx *engine.Tx, groups map[shardGroup]bool) error {
	if err := q.takeTurnsOf(ctx, tx, groups); err != nil {
		return err
	}
	return q.letIn(ctx, tx, groups)
}

// takeTurnsOf takes the turns of the groups' shards, and of others. A database with a single writer needs none.
func (q *Queue) takeTurnsOf(ctx context.Context, tx *engine.Tx, groups map[shardGroup]bool, others ...int) error {
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
func (q *Queue) letIn(ctx context.Context, tx *engine.Tx, groups map[shardGroup]bool) error {
	held, err := q.firstHeld(ctx, tx, slices.Collect(maps.Keys(groups)))
	var ids []any
	for _, jobs := range held {
		ids = append(ids, slices.MinFunc(jobs, candidate.compare).ID)
	}
	if err == nil && len(ids) > 0 && tx.SkipLocked != "" {
		ids, err = q.IDs(ctx, tx, "SELECT id FROM "+q.table+" "+q.db.SQL.ByID+" WHERE id IN "+notAlone(len(ids))+" AND status = 'throttled' "+tx.SkipLocked, ids...)
	}
	if err == nil && len(ids) > 0 {
		now, stamp := tx.Stamp()
		err = tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET asked_time = "+now+" WHERE status = 'throttled' AND id IN "+engine.In(len(ids)), append(stamp, ids...)...)
	}
	return texts.Wrap(err, "let held jobs of %s in", q.Name)
}

// firstHeld returns the first job of each type that groups hold: one type of each group after the other.
func (q *Queue) firstHeld(ctx context.Context, tx *engine.Tx, groups []shardGroup) (held map[shardGroup][]candidate, err error) {
	held = map[shardGroup][]candidate{}
	for gaps := texts.Map(groups, func(in shardGroup) gap { return gap{in: in} }); len(gaps) > 0 && err == nil; {
		var next []gap
		err = q.behind(ctx, tx, job.StatusThrottled, gaps, func(of gap, jobType string, at schema.Position) {
			r := &indexRange{status: job.StatusThrottled, part: of.in.group, jobType: jobType, size: 1, ended: true}
			held[of.in] = append(held[of.in], candidate{Position: at, from: r})
			next = append(next, gap{of.in, jobType})
		})
		gaps = next
	}
	return held, err
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
		groups := map[shardGroup]bool{}
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
				at = shardGroup{}
				break
			}
			if err != nil {
				return err
			}
			at = shardGroup{next.Shard, next.Part}
			groups[at] = true
		}
		used, n, err := q.usedIn(ctx, tx, groups)
		if err != nil {
			return err
		}
		read = n
		maps.DeleteFunc(groups, func(p shardGroup, _ bool) bool { limit := q.LimitOf(p.group); return limit > 0 && used[p] >= limit })
		return q.letIn(ctx, tx, groups)
	})
	q.overlooked.rest(at, read, overlookedEvery)
	return more, texts.Wrap(err, "look for held jobs of %s", q.Name)
}
