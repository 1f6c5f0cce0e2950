package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
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

// SlotWish is how many slots of a lane a worker wants, and how many are in use. Limit is the lane's limit on the host.
type SlotWish struct{ Want, InUse, Limit int }

// TakeSlots takes the slots that this host's other live workers leave of each lane. It keeps at least those in use, because
// the others may have a higher limit. accepting tells the others whether the worker still starts jobs. served are the types that
// others run which hold slots and still start jobs. If those don't run all of due, and the worker gets no slot, its row says how
// many it wants. Claiming workers take turns.
func (r *Table) TakeSlots(ctx context.Context, w Worker, wishes map[string]SlotWish, due Serves, accepting bool) (got map[string]int, served Serves, err error) {
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
		got, served = map[string]int{}, Serves{}
		for _, row := range rows {
			for lane, n := range row.ByLane() {
				others[lane] += n
			}
			if !row.Accepting || row.Slots < 1 {
				continue
			}
			of := due // what an unknown program runs is unknown, too
			if row.Serves != activity.None {
				of = Serves{}
				_ = json.Unmarshal([]byte(row.Serves), &of)
			}
			for queue, types := range of {
				served[queue] = append(served[queue], types...)
			}
		}
		for lane, c := range wishes {
			got[lane] = max(c.InUse, min(c.Want, c.Limit-others[lane]))
		}
		for lane, c := range wishes { // no more of a lane than can run at all
			got[lane] = max(c.InUse, min(got[lane], got[""]))
		}
		wants := 0
		for queue, types := range due {
			if got[""] == 0 && !served.All(queue, types) {
				wants = wishes[""].Want
			}
		}
		own := maps.Clone(got)
		delete(own, "") // that is the column slots
		lanes, err := json.Marshal(own)
		if err != nil {
			return err
		}
		return tx.Write(ctx, "UPDATE "+r.db.Workers()+" SET slots = ?, lanes = ?, accepting = ?, wants = ? WHERE id = ? AND state = 'working'",
			got[""], string(lanes), accepting, wants, w.ID)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("claim slots on this host: %w", err)
	}
	return got, served, nil
}

// Others are what a worker needs to know of the live ones.
type Others struct {
	// Wanting counts those of its host that have no slot, and want some.
	Wanting int
	// serving are those with slots, by id.
	serving map[string]Serves
}

// Others reads about the other live workers.
func (r *Table) Others(ctx context.Context, w Worker) (o Others, err error) {
	rows, err := r.rows(ctx, r.db.SQL, "WHERE state = 'working' AND lock_until > (SELECT "+r.db.SQL.NowSQL+") AND id <> ?", w.ID)
	if err != nil {
		return Others{}, fmt.Errorf("look at the other workers: %w", err)
	}
	o.serving = map[string]Serves{}
	for _, row := range rows {
		var serves Serves
		switch {
		case row.Host == w.Host && row.Wants > 0:
			o.Wanting++
		case row.Slots > 0 && row.Accepting && json.Unmarshal([]byte(row.Serves), &serves) == nil:
			o.serving[row.ID] = serves
		}
	}
	return o, nil
}

// Stripe returns how many workers start jobs of any of these types now, and which of them this one is, from 0.
func (o Others) Stripe(id, queue string, types []string) (of, nth int) {
	for other, serves := range o.serving {
		if !slices.ContainsFunc(serves[queue], func(name string) bool { return slices.Contains(types, name) }) {
			continue
		}
		if of++; other < id {
			nth++
		}
	}
	return of + 1, nth
}

// takeTurn makes a host's claiming workers take turns, by a row among the shards that belongs to no queue. They write it,
// because Galera nodes don't see each other's locks but refuse the second commit.
func (r *Table) takeTurn(ctx context.Context, tx *engine.Tx, host string) error {
	at := policy.Hash(host, policy.MaxShards) // few hosts share one
	turn := tx.Now.UnixMicro()                // differs from the last one
	err := tx.Upsert(ctx, r.db.Shards(), 2, []string{"queue", "shard", "turn"}, []any{activity.None, at, turn})
	return texts.Wrap(err, "wait for a turn")
}
