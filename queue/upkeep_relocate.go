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

// relocate moves jobs to the shards in which they belong: they were placed when the queue was divided otherwise. One that was held back
// comes among the due ones, for its group may be another.
func (q *Queue) relocate(ctx context.Context, statuses string) (moved int, err error) {
	err = q.db.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		var found []*job.Job
		for _, where := range q.misplaced() {
			query := "SELECT id, job_type, job_key, shard_key FROM " + q.table + " " + q.claimIndex() + " WHERE status IN " + statuses + " AND " + where +
				" LIMIT ? " + tx.SkipLocked
			if err := tx.Read(ctx, q.placing(query, []any{relocateMax - len(found)}, &found)); err != nil {
				return err
			}
		}
		// who divides the queue otherwise may have been faster, and moved what a worker has: then all else is misplaced
		number, err := q.divisionOf(ctx, tx)
		if err != nil {
			return err
		}
		if number != 0 && number != q.division().Number() {
			found = nil
		}
		moved = len(found)
		return q.move(ctx, tx, found, ", throttle_group = CASE WHEN status = 'throttled' THEN 'NONE' ELSE throttle_group END,"+
			" status = CASE WHEN status = 'throttled' THEN 'available' ELSE status END")
	})
	if err != nil {
		return 0, fmt.Errorf("move jobs of %s to their shards: %w", q.Name, err)
	}
	return moved, nil
}

// placing is a query for what says where jobs belong, apart from their data.
func (q *Queue) placing(query string, args []any, found *[]*job.Job) engine.Query {
	return engine.Query{SQL: query, Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		j := &job.Job{}
		*found = append(*found, j)
		return row.Scan(&j.ID, &j.Type, &j.Key, &j.ShardKey)
	})}
}

// move moves jobs to the shards in which they belong. set is what else is written to them.
func (q *Queue) move(ctx context.Context, tx *engine.Tx, jobs []*job.Job, set string) error {
	if err := q.findPlaces(ctx, tx, jobs); err != nil {
		return err
	}
	byPlace := map[int][]any{}
	for _, j := range jobs {
		byPlace[j.Place] = append(byPlace[j.Place], j.ID)
	}
	for _, place := range slices.Sorted(maps.Keys(byPlace)) {
		for some := range slices.Chunk(byPlace[place], relocateMax) {
			err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET shard = ?"+set+" WHERE id IN "+engine.In(len(some)), append([]any{place}, some...)...)
			if err != nil {
				return err
			}
		}
	}
	return nil
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
