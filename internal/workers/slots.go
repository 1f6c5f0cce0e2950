package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
)

// Lane is the name of the lane of a queue, or of one of its job types, with its own concurrency.
func Lane(queue, jobType string) string {
	if jobType == "" {
		return queue
	}
	return queue + "/" + jobType
}

// ByLane returns the worker's slots by lane; "" is the lane of all jobs. Unreadable lanes count as none.
func (r Row) ByLane() map[string]int {
	var byLane map[string]int
	if r.Lanes == activity.None || json.Unmarshal([]byte(r.Lanes), &byLane) != nil || byLane == nil {
		byLane = map[string]int{}
	}
	byLane[""] = r.Slots
	return byLane
}

// Claim is how many slots of a lane a worker wants, and how many are in use. Limit is the lane's limit on the host.
type Claim struct{ Want, InUse, Limit int }

// ClaimSlots takes the slots that this host's other live workers leave of each lane. It keeps at least those in use, because
// the others may have a higher limit. accepting tells the others whether the worker still starts jobs; served says in which
// lanes others do. Claiming workers take turns.
func (r *Table) ClaimSlots(ctx context.Context, w Worker, claims map[string]Claim, accepting bool) (got map[string]int, served map[string]bool, err error) {
	err = r.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		if err := r.takeTurn(ctx, tx, w.Host); err != nil {
			return err
		}
		rows, err := r.rows(ctx, tx, "WHERE state = 'working' AND lock_until > ? AND host = ? AND id <> ?",
			engine.At(tx.Now), w.Host, w.ID)
		if err != nil {
			return err
		}
		others := map[string]int{}
		got, served = map[string]int{}, map[string]bool{}
		for _, row := range rows {
			for lane, n := range row.ByLane() {
				others[lane] += n
				served[lane] = served[lane] || row.Accepting && n > 0
			}
		}
		for lane, c := range claims {
			got[lane] = max(c.InUse, min(c.Want, c.Limit-others[lane]))
		}
		for lane, c := range claims { // no more of a lane than can run at all
			got[lane] = max(c.InUse, min(got[lane], got[""]))
		}
		own := maps.Clone(got)
		delete(own, "") // that is the column slots
		lanes, err := json.Marshal(own)
		if err != nil {
			return err
		}
		return tx.Write(ctx, "UPDATE "+r.db.Workers()+" SET slots = ?, lanes = ?, accepting = ? WHERE id = ? AND state = 'working'",
			got[""], string(lanes), accepting, w.ID)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("claim slots on this host: %w", err)
	}
	return got, served, nil
}

// takeTurn makes a host's claiming workers take turns, by a row among the shards that belongs to no queue. They write it,
// because Galera nodes don't see each other's locks but refuse the second commit.
func (r *Table) takeTurn(ctx context.Context, tx *engine.Tx, host string) error {
	at := policy.Hash(host, policy.MaxShards) // few hosts share one
	turn := tx.Now.UnixMicro()                // differs from the last one
	if err := tx.Upsert(ctx, r.db.Shards(), 2, []string{"queue", "shard", "turn"}, []any{activity.None, at, turn}); err != nil {
		return fmt.Errorf("wait for a turn: %w", err)
	}
	return nil
}
