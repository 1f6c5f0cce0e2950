package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Reshard registers the options' limits and divides the queue's jobs among their shards, while workers run. Workers with another
// division then skip the queue at once, and those with other limits after their next poll. moved counts the waiting jobs that
// it moved. It may be repeated after an interruption, and workers continue the move too. It fails with ErrShards if the division changes again meanwhile.
func (q *Queue) Reshard(ctx context.Context) (moved int, err error) {
	if err := q.db.SQL.Tx(ctx, func(tx *engine.Tx) error { return q.shards().divide(ctx, tx) }); err != nil {
		return 0, fmt.Errorf("divide %s: %w", q.Name, err)
	}
	if err := q.register(ctx, true); err != nil {
		return 0, err
	}
	for n := relocateMax; n == relocateMax && err == nil; moved += n {
		n, err = q.shards().moveMisplaced(ctx)
	}
	return moved, err
}

// divide makes the new shards if the division differs. It moves the jobs that workers have, under all turns.
func (q shards) divide(ctx context.Context, tx *engine.Tx) error {
	own := q.Division().Number()
	update := "UPDATE " + q.db.Queues() + " SET division = ? WHERE queue = ? AND division <> ?"
	if other, err := engine.Changed(tx.ExecContext(ctx, update, own, q.Name, own)); err != nil || !other {
		return err
	}
	if err := q.TakeAllTurns(ctx, tx); err != nil {
		return err
	}
	// Even without turns, because the queue may get a limit; locked, because a settlement may change a job's group.
	for n := relocateMax; n == relocateMax; {
		var err error
		if n, err = q.relocate(ctx, tx, schema.Counts, q.db.SQL.ForUpdate); err != nil {
			return err
		}
	}
	return q.makeShards(ctx, tx)
}

// misplacedOf is the condition for jobs that aren't final. Submitted jobs get their place when they are ingested.
const misplacedOf = "status IN ('available', 'scheduled', 'throttled', 'undecided'," +
	" 'locked', 'running', 'answered', 'deciding', 'awaiting')"

// Misplaced counts the jobs, except final ones and rows from plain SQL, that are placed under another division. It reads no
// others.
func (q *Queue) Misplaced(ctx context.Context) (n int64, err error) {
	count := "(SELECT COUNT(*) FROM " + q.table + " " + q.ClaimIndex() + " WHERE " + misplacedOf + " AND "
	where := q.misplaced()
	err = q.db.SQL.GetContext(ctx, &n, "SELECT "+count+where[0]+") + "+count+where[1]+")")
	return n, texts.Wrap(err, "count the jobs of %s in none of its shards", q.Name)
}

const relocateMax = 1000

var placeColumns = Only("id", "job_type", "job_key", "shard_key")

// moveMisplaced moves jobs that were placed under another division.
func (q shards) moveMisplaced(ctx context.Context) (moved int, err error) {
	err = q.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		moved, err = q.relocate(ctx, tx, misplacedOf, tx.SkipLocked)
		return err
	})
	return moved, texts.Wrap(err, "move jobs of %s to their shards", q.Name)
}

// relocate locks and moves misplaced jobs that meet a condition. A held job becomes available, because its group may differ.
// It fails with ErrShards if the division changed meanwhile.
func (q shards) relocate(ctx context.Context, tx *engine.Tx, of, lock string) (moved int, err error) {
	var found []*job.Job
	for _, where := range q.misplaced() {
		rest := q.ClaimIndex() + " WHERE " + of + " AND " + where + " LIMIT ? " + lock
		query := q.Jobs(placeColumns, rest, []any{relocateMax - len(found)}, func(j *job.Job) { found = append(found, j) })
		if err := tx.Read(ctx, query); err != nil {
			return 0, err
		}
	}
	if err := q.checkDivision(ctx, tx); err != nil {
		return 0, err
	}
	if err := q.findPlaces(ctx, tx, found); err != nil {
		return 0, err
	}
	byPlace := map[int][]any{}
	for _, j := range found {
		byPlace[j.Place] = append(byPlace[j.Place], j.ID)
	}
	for _, place := range slices.Sorted(maps.Keys(byPlace)) {
		ids := byPlace[place]
		err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET shard = ?, asked_time = NULL,"+
			" status = CASE WHEN status = 'throttled' THEN 'available' ELSE status END WHERE id IN "+engine.In(len(ids)),
			append([]any{place}, ids...)...)
		if err != nil {
			return 0, err
		}
	}
	return len(found), nil
}

// findPlaces sets the jobs' places. It reads their data only if needed, and doesn't keep it, because it may be large.
func (q *Queue) findPlaces(ctx context.Context, tx *engine.Tx, jobs []*job.Job) error {
	d := q.Division()
	place := func(j *job.Job, data []byte) { j.Place = d.PlaceOf(j.Type, j.Key, j.ShardKey, data) }
	if d.N > 1 && d.Groups != nil && d.Groups.By != job.GroupByType {
		return q.dataOf(ctx, tx, jobs, place)
	}
	for _, j := range jobs {
		place(j, nil)
	}
	return nil
}
