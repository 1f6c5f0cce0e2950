package store

import (
	"cmp"

	"github.com/hipq/hipq/queue/job"
)

// ForgetTypes has a queue ask for its registration when it needs it next.
func ForgetTypes(q *Queue) { q.known.Store(nil) }

// PlaceOf is where the table has a job that is to be added.
func PlaceOf(q *Queue, j job.New) int {
	j.ShardKey = cmp.Or(j.ShardKey, job.None)
	return q.Division().PlaceOf(j.Type, j.Key, j.ShardKey, []byte(j.Data))
}
