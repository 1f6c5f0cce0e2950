package queue

import (
	"cmp"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// RememberTypes has a queue remember registered types for so long.
func RememberTypes(q *Queue, keep time.Duration) { q.known.keep = keep }

// PlaceOf is where the table has a job that is to be added.
func PlaceOf(q *Queue, j job.New) int {
	j.ShardKey = cmp.Or(j.ShardKey, job.None)
	return placeOf(q.division(), &j)
}
