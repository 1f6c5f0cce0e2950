package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/roster"
	"github.com/hipq/hipq/schema"
)

// Round is what a Round did.
type Round struct {
	// Started are the jobs to run now. One that was to be started and is not here has lost its lock, or its windows
	// have closed.
	Started []*job.Job
	// Resting are those in the state error, under the worker's lock, about which its retry handlers are to be asked now.
	Resting []Settled
	// Lost are the jobs whose settlement changed nothing, because the worker had lost its lock on them.
	Lost []*job.Job
}

// Round settles attempts and starts locked jobs in their place, in one transaction.
func (q *Queue) Round(ctx context.Context, w roster.Worker, settle []Settled, start []Locked) (Round, error) {
	var r Round
	err := q.db.Tx(ctx, func(tx *schema.Tx) error {
		r = Round{}
		var entries []activity.Entry
		// first, for this may have to wait for a turn
		allowed, err := q.ration(ctx, tx, len(start))
		if err != nil {
			return err
		}
		if len(settle) > 0 {
			if entries, err = q.settle(ctx, tx, w, settle, &r); err != nil {
				return err
			}
		}
		fresh := 0
		for _, c := range claims(start) {
			started, starting, err := q.start(ctx, tx, c, allowed-fresh)
			if err != nil {
				return err
			}
			fresh += len(starting)
			entries, r.Started = append(entries, starting...), append(r.Started, started...)
		}
		if err := q.countStarts(ctx, tx, fresh); err != nil {
			return err
		}
		for i := range entries {
			entries[i].WorkerID, entries[i].Host, entries[i].PID = w.ID, w.Host, w.PID
		}
		return q.log.Record(ctx, tx, entries)
	})
	if err != nil {
		return Round{}, fmt.Errorf("settle and start jobs of %s: %w", q.Name, err)
	}
	return r, nil
}
