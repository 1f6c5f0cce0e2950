package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/schema"
)

// ErrShards is the error about a queue that is divided into shards in another way than the options say. It is a
// schema.ErrNotMigrated.
var ErrShards = shardsError("the queue is divided in another way")

type shardsError string

func (e shardsError) Error() string { return string(e) }

func (e shardsError) Is(target error) bool {
	return target == schema.ErrNotMigrated || target == ErrShards
} //nolint:errorlint // it is asked for the two alone

// Division is how the options say that the queue is divided.
func (o Options) Division() policy.Division {
	return policy.Division{N: max(1, o.Shards), Groups: o.ThrottleGroups}
}

func (o Options) isDivided() bool { return o.Shards > 1 }

// OtherwiseDivided is the error if the database has a division of another number than these options; 0 is that it has none.
func (q *Queue) OtherwiseDivided(number int) error {
	own, n, noun := q.Division(), policy.ShardsIn(number), "shards"
	if n == 1 {
		noun = "shard"
	}
	switch {
	case number == 0 || number == own.Number():
		return nil
	case n == own.N:
		return shardsError("its shards are by other throttle groups than those in this config: run hipq init")
	}
	return shardsError(fmt.Sprintf("the queue has %d %s in the database, and %d in this config: run hipq init",
		n, noun, own.N))
}

func (q *Queue) place(shard int) int { return policy.ShardPlace(q.Division().Number(), shard) }

// inShard is the condition that a row is in this shard; inShards that it is in any of the queue's.
func (q *Queue) inShard(shard int) string { return fmt.Sprintf(" shard = %d", q.place(shard)) }

func (q *Queue) inShards() string {
	places := make([]string, q.Division().N)
	for shard := range places {
		places[shard] = strconv.Itoa(q.place(shard))
	}
	return " shard IN (" + strings.Join(places, ",") + ")"
}

// misplaced are conditions of which one is true of a row that was placed when the queue was divided otherwise. They are asked one
// after the other: with both at once SQLite would walk the whole line.
func (q *Queue) misplaced() [2]string {
	return [2]string{fmt.Sprintf("shard < %d", q.place(0)), fmt.Sprintf("shard >= %d", q.place(q.Division().N))}
}

// shardOf is the shard that a row is in; ok is false if it is in none of the queue's.
func (q *Queue) shardOf(place int) (shard int, ok bool) {
	return policy.ShardAt(q.Division().Number(), place)
}

// DivisionOf reads the number of the queue's division; 0 if it isn't registered.
func (q *Queue) DivisionOf(ctx context.Context, from engine.Reader) (number int, err error) {
	err = from.GetContext(ctx, &number, "SELECT COALESCE(MAX(division), 0) FROM "+q.db.Queues()+" WHERE queue = ?", q.Name)
	if err != nil {
		return 0, fmt.Errorf("find out how %s is divided: %w", q.Name, err)
	}
	return number, nil
}

// checkDivision is an ErrShards if the queue is divided in another way than these options say.
func (q *Queue) checkDivision(ctx context.Context, from engine.Reader) error {
	number, err := q.DivisionOf(ctx, from)
	if err != nil {
		return err
	}
	return q.OtherwiseDivided(number)
}
