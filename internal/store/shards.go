package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/schema"
)

// ErrShards means that the queue's division differs from the options. It is also a schema.ErrNotMigrated.
var ErrShards = texts.Errorf(schema.ErrNotMigrated, "the queue is divided differently")

// ErrLimits means that the queue's throttle limit, throttle groups or rate differ from the options. It is also an ErrShards.
var ErrLimits = texts.Errorf(ErrShards, "the queue has other limits")

// otherwise returns an ErrShards with both values if the registered division, limits or rate differ from these options.
func (q *Queue) otherwise(there queueRecord) error {
	if err := q.OtherwiseDivided(there.Division); err != nil {
		return err
	}
	old, flaw := there.options(q.db)
	if flaw != nil { // Register replaces it
		return nil
	}
	was, is := old.limitTexts(), q.limitTexts()
	all := maps.Clone(is)
	maps.Copy(all, was)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if was[name] != is[name] {
			return texts.Errorf(ErrLimits, "its %s is %s in the database, and %s in this config: "+initIfRight,
				name, cmp.Or(was[name], "missing"), cmp.Or(is[name], "missing"))
		}
	}
	return nil
}

// initIfRight is the advice for a config that differs from the database. Only the reader knows which of them is old.
const initIfRight = "run hipq init if this config is right"

// limitTexts are the limits that hold for all workers, by their names in a config.
func (o Options) limitTexts() map[string]string {
	texts := map[string]string{}
	if o.ThrottleLimit > 0 {
		texts["throttle_limit"] = strconv.Itoa(o.ThrottleLimit)
	}
	if o.Rate.Starts > 0 {
		texts["rate"] = fmt.Sprintf("%d/%s", o.Rate.Starts, policy.Brief(o.Rate.Per))
	}
	if o.ThrottleGroups != nil {
		texts["throttle_groups.by"] = o.ThrottleGroups.By
		for value, n := range o.ThrottleGroups.Limits {
			texts[fmt.Sprintf("throttle_groups.limits.%q", value)] = strconv.Itoa(n)
		}
	}
	return texts
}

// Division is the queue's division according to the options.
func (o Options) Division() policy.Division {
	return policy.Division{N: max(1, o.Shards), Groups: o.ThrottleGroups}
}

func (o Options) isDivided() bool { return o.Shards > 1 }

// OtherwiseDivided returns an ErrShards if number, the division in the database, isn't that of these options; 0 is no
// division.
func (q *Queue) OtherwiseDivided(number int) error {
	own, n, noun := q.Division(), policy.ShardsIn(number), "shards"
	if n == 1 {
		noun = "shard"
	}
	switch {
	case number == 0 || number == own.Number():
		return nil
	case n == own.N:
		return texts.Errorf(ErrShards, "its shards use other throttle groups than this config: "+initIfRight)
	}
	return texts.Errorf(ErrShards, "the queue has %d %s in the database, and %d in this config: "+initIfRight, n, noun, own.N)
}

func (q *Queue) place(shard int) int { return policy.ShardPlace(q.Division().Number(), shard) }

// inShard is the condition that a row is in this shard.
func (q *Queue) inShard(shard int) string { return fmt.Sprintf(" shard = %d", q.place(shard)) }

// inShards is the condition that a row is in any of the queue's shards.
func (q *Queue) inShards() string {
	places := make([]string, q.Division().N)
	for shard := range places {
		places[shard] = strconv.Itoa(q.place(shard))
	}
	return " shard IN (" + strings.Join(places, ",") + ")"
}

// misplaced are conditions for rows placed under another division: one of them is true. Use two queries, because SQLite would
// scan the whole range for both at once.
func (q *Queue) misplaced() [2]string {
	return [2]string{fmt.Sprintf("shard < %d", q.place(0)), fmt.Sprintf("shard >= %d", q.place(q.Division().N))}
}

// shardOf returns the shard that a row is in; ok is false if it is in none of the queue's.
func (q *Queue) shardOf(place int) (shard int, ok bool) {
	return policy.ShardAt(q.Division().Number(), place)
}

// Registration reads the number of the queue's division, and an ErrShards if the queue is registered with another division or
// other limits. If it isn't registered, both stay as they are.
func (q *Queue) Registration(number *int, otherwise *error) engine.Query {
	return registrations(q.db, "= ?", []any{q.Name}, func(r queueRecord) {
		if *number = r.Division; policy.ShardsIn(*number) > 0 {
			*otherwise = q.otherwise(r)
		}
	})
}

// DivisionOf reads the number of the queue's division; 0 if it isn't registered.
func (q *Queue) DivisionOf(ctx context.Context, from engine.Reader) (number int, err error) {
	err = from.GetContext(ctx, &number, "SELECT COALESCE(MAX(division), 0) FROM "+q.db.Queues()+" WHERE queue = ?", q.Name)
	return number, texts.Wrap(err, "find out how %s is divided", q.Name)
}

// checkDivision fails with ErrShards if the queue's division differs from these options.
func (q *Queue) checkDivision(ctx context.Context, from engine.Reader) error {
	number, err := q.DivisionOf(ctx, from)
	if err != nil {
		return err
	}
	return q.OtherwiseDivided(number)
}
