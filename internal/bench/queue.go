package bench

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Queue is a queue of hipq with generated jobs, which cycle through its types and throttle groups.
type Queue struct{ *queue.Queue }

// Open creates a queue and its table.
func Open(ctx context.Context, db *schema.DB, o queue.Options) (*Queue, error) {
	if _, err := db.Migrate(ctx, []schema.Queue{o.Table()}); err != nil {
		return nil, err
	}
	q, err := queue.New(db, o)
	if err != nil {
		return nil, err
	}
	return &Queue{q}, q.Register(ctx)
}

// Plain is a queue with one job type.
func Plain(name string) queue.Options { return queue.Options{Name: name, Types: types(1)} }

// ManyTypes is a queue with 20 job types.
func ManyTypes(name string) queue.Options { return queue.Options{Name: name, Types: types(20)} }

// The kinds of throttle groups.
const (
	ByType   = job.GroupByType
	ByRegion = job.GroupByData + "region"
)

// Throttled is a queue with a limit and five groups, ByType or ByRegion, whose limits sum to more: so sometimes the
// limit holds jobs back, and sometimes a group does.
func Throttled(name, by string) queue.Options {
	o := queue.Options{
		Name: name, Types: types(1), ThrottleLimit: 100,
		ThrottleGroups: &job.ThrottleGroups{By: by, Limits: map[string]int{job.OtherGroups: 30}},
	}
	if by == ByType {
		o.Types = types(regions)
	}
	return o
}

const regions = 5

func types(n int) []job.Type {
	list := []job.Type{job.DefaultType("noop")}
	for i := 1; i < n; i++ {
		list = append(list, job.DefaultType(fmt.Sprintf("noop%d", i)))
	}
	return list
}

func (q *Queue) job(i int) job.Params {
	job := job.Params{Type: q.Types[i%len(q.Types)].Name, Data: data(i)}
	if g := q.ThrottleGroups; g != nil && g.By == ByRegion {
		job.Data = fmt.Sprintf(`{"user":%d,"action":"welcome mail","region":"r%d"}`, i, i%regions)
	}
	return job
}

// Fill adds n jobs in bulk.
func (q *Queue) Fill(ctx context.Context, n int) error {
	for from := 0; from < n; from += perTransaction {
		jobs := make([]job.Params, min(perTransaction, n-from))
		for i := range jobs {
			jobs[i] = q.job(from + i)
		}
		if _, err := q.EnqueueMany(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// FillSingly adds n jobs one by one, with so many goroutines.
func (q *Queue) FillSingly(ctx context.Context, n, goroutines int) error {
	return share(n, goroutines, func(i int) error {
		_, err := q.Enqueue(ctx, q.job(i))
		return err
	})
}
