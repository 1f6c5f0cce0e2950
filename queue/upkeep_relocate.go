package queue

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// misplacedOf are the statuses in which a job that is misplaced would never start, or not count against the limit. Scheduled ones are moved
// by who divides the queue, or when they have become available; submitted ones get their place when they are accepted.
const misplacedOf = "('available', 'throttled', 'undecided', 'locked', 'running', 'answered', 'deciding', 'awaiting')"

// relocateMax is how many jobs one transaction moves to the shards in which they belong.
const relocateMax = 1000

// relocate moves jobs of these statuses to the shards in which they belong: they were placed when the queue was divided otherwise.
func (q *Queue) relocate(ctx context.Context, statuses string) (moved int, err error) {
	err = q.db.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		moved = 0
		for _, where := range q.misplaced() {
			n, err := q.move(ctx, tx, "status IN "+statuses+" AND "+where, relocateMax-moved, tx.SkipLocked)
			if err != nil {
				return err
			}
			moved += n
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("move jobs of %s to their shards: %w", q.Name, err)
	}
	return moved, nil
}

// move moves jobs to the shards in which they belong, n at most: those of which a condition is true, locked. One that was held back
// comes among the due ones, because its group may be another. It moves none if the queue has been divided otherwise.
func (q *Queue) move(ctx context.Context, tx *engine.Tx, where string, n int, lock string) (moved int, err error) {
	var found []*job.Job
	query := "SELECT id, job_type, job_key, shard_key FROM " + q.table + " " + q.claimIndex() + " WHERE " + where + " LIMIT ? " + lock
	err = tx.Read(ctx, engine.Query{SQL: query, Args: []any{n}, Scan: engine.EachRow(func(row *sql.Rows) error {
		j := &job.Job{}
		found = append(found, j)
		return row.Scan(&j.ID, &j.Type, &j.Key, &j.ShardKey)
	})})
	if err != nil {
		return 0, err
	}
	// another that divides the queue may have been faster, and moved what a worker has: then all else is misplaced
	number, err := q.divisionOf(ctx, tx)
	if err != nil || number != 0 && number != q.division().Number() {
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
		for some := range slices.Chunk(byPlace[place], relocateMax) {
			err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET shard = ?,"+
				" throttle_group = CASE WHEN status = 'throttled' THEN 'NONE' ELSE throttle_group END,"+
				" status = CASE WHEN status = 'throttled' THEN 'available' ELSE status END WHERE id IN "+engine.In(len(some)), append([]any{place}, some...)...)
			if err != nil {
				return 0, err
			}
		}
	}
	return len(found), nil
}

// findPlaces tells jobs where they belong. Their data are read for that where they matter, and not kept: they may be large.
func (q *Queue) findPlaces(ctx context.Context, tx *engine.Tx, jobs []*job.Job) error {
	d := q.division()
	byID, ids := make(map[int64]*job.Job, len(jobs)), make([]any, len(jobs))
	for i, j := range jobs {
		byID[j.ID], ids[i] = j, j.ID
		j.Place = d.Place(d.Of(j.Type, j.Key, j.ShardKey, nil))
	}
	if d.N == 1 || d.Groups == nil || d.Groups.By == job.GroupByType {
		return nil
	}
	for some := range slices.Chunk(ids, relocateMax) {
		err := q.eachData(ctx, tx, some, func(id int64, data []byte) {
			j := byID[id]
			j.Place = d.Place(d.Of(j.Type, j.Key, j.ShardKey, data))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
