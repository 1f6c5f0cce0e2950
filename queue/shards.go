package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue/job"
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

// division is how the options say that the queue is divided.
func (o Options) division() shards.Division {
	return shards.Division{N: max(1, o.Shards), Groups: o.ThrottleGroups}
}

// isDivided says whether the queue has more than one shard.
func (o Options) isDivided() bool { return o.Shards > 1 }

// otherwiseDivided is the error about a division of that number in the database.
func (q *Queue) otherwiseDivided(number int) error {
	noun := "shards"
	if shards.N(number) == 1 {
		noun = "shard"
	}
	what := fmt.Sprintf("the queue has %d %s in the database, and %d in this config: hipq init divides it anew", shards.N(number), noun, q.division().N)
	if shards.N(number) == q.division().N {
		what = "its shards are by other throttle groups than those in this config: hipq init divides it anew"
	}
	return shardsError(what)
}

// allShards are the queue's.
func (q *Queue) allShards() []int {
	all := make([]int, q.division().N)
	for i := range all {
		all[i] = i
	}
	return all
}

// place is the number of a shard in the tables.
func (q *Queue) place(shard int) int { return q.division().Place(shard) }

// placed is the condition that a row is in one of these shards, or in any of the queue's if none is named.
func (q *Queue) placed(of ...int) string {
	if len(of) == 0 {
		of = q.allShards()
	}
	if len(of) == 1 {
		return " shard = " + strconv.Itoa(q.place(of[0]))
	}
	places := make([]string, len(of))
	for i, shard := range of {
		places[i] = strconv.Itoa(q.place(shard))
	}
	return " shard IN (" + strings.Join(places, ",") + ")"
}

// misplaced are the conditions of which one is true of a row that is in none of the queue's shards: it was placed when the queue was
// divided otherwise. They are asked one after the other, for with both at once SQLite would walk the whole line.
func (q *Queue) misplaced() [2]string {
	return [2]string{fmt.Sprintf("shard < %d", q.place(0)), fmt.Sprintf("shard >= %d", q.place(q.division().N))}
}

// shardOf is the shard that a row is in; ok is false if it is in none of the queue's.
func (q *Queue) shardOf(place int) (shard int, ok bool) {
	return shards.In(q.division().Number(), place)
}

// placeOf is where a job belongs that is to be added.
func placeOf(d shards.Division, j *job.New) int {
	return d.Place(d.Of(j.Type, j.Key, j.ShardKey, []byte(j.Data)))
}

// dividedBy is how the queue is divided, for who enqueues: that may know no more of the queue than its name.
func (q *Queue) dividedBy(ctx context.Context, from engine.Reader) (shards.Division, error) {
	if q.Shards > 0 {
		return q.division(), nil
	}
	r, err := q.registered(ctx, from)
	if err != nil {
		return shards.Division{}, err
	}
	return r.division(), nil
}

// divisionOf reads the number of the queue's division; 0 if it isn't registered.
func (q *Queue) divisionOf(ctx context.Context, from engine.Reader) (number int, err error) {
	err = from.GetContext(ctx, &number, "SELECT COALESCE(MAX(division), 0) FROM "+q.db.Queues()+" WHERE queue = ?", q.Name)
	if err != nil {
		return 0, fmt.Errorf("find out how %s is divided: %w", q.Name, err)
	}
	return number, nil
}
