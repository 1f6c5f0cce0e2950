package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// defaultType is a type of which nothing is said.
func (o Options) defaultType(name string) job.Type {
	t := job.DefaultType(name)
	if o.DefaultPriority != nil {
		t.Priority = *o.DefaultPriority
	}
	if o.DefaultTimeout > 0 {
		t.Timeout = o.DefaultTimeout
	}
	if o.DefaultRetry != nil {
		t.Retry = *o.DefaultRetry
	}
	return t
}

// registration is what the database knows of the queue; the zero Options if it knows nothing that a config could have said.
func (q *Queue) registration(ctx context.Context, from engine.Reader) (Options, error) {
	there, flaws, err := readQueues(ctx, q.db, from, "queue = ?", q.Name)
	if err != nil {
		return Options{}, fmt.Errorf("read the registration of %s: %w", q.Name, err)
	}
	if len(there) == 0 || flaws[0] != nil {
		return Options{}, nil
	}
	o, err := there[0].options()
	if err != nil {
		return Options{}, nil //nolint:nilerr // Registered warns of it
	}
	return o, nil
}

// withRegistered are the queue's options, with the defaults that the database knows in the place of those that they leave out: who
// enqueues may know no more of the queue than its name.
func (q *Queue) withRegistered(ctx context.Context, from engine.Reader) (Options, error) {
	o, err := q.registration(ctx, from)
	if err != nil {
		return Options{}, err
	}
	if q.DefaultPriority != nil {
		o.DefaultPriority = q.DefaultPriority
	}
	if q.DefaultTimeout > 0 {
		o.DefaultTimeout = q.DefaultTimeout
	}
	if q.DefaultRetry != nil {
		o.DefaultRetry = q.DefaultRetry
	}
	return o, nil
}

// saveDefaults brings the defaults to the types that no config has named.
func (q *Queue) saveDefaults(ctx context.Context, tx *engine.Tx) error {
	t := q.defaultType("")
	_, err := tx.ExecContext(ctx, "UPDATE "+q.db.JobTypes()+" SET timeout = ?, priority = ? WHERE queue = ? AND settings = 'NONE'",
		int64(t.Timeout/time.Second), t.Priority, q.Name)
	if err != nil {
		return fmt.Errorf("write the defaults of job types of %s: %w", q.Name, err)
	}
	return nil
}
