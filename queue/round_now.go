package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// StartNow implements rounds.Queue.
func (q workerSide) StartNow(ctx context.Context, r rounds.Round, id int64) (*job.Job, error) {
	j, want, err := q.tryNow(ctx, r, id)
	if errors.Is(err, ErrNoRoom) && want.Job != 0 {
		// what other shards hold and don't use, this one gets at once
		var done rounds.Done
		shard, _ := q.shardOf(j.Place)
		if err := q.borrow(ctx, shard, want, &done); err != nil {
			return nil, err
		}
		if done.More {
			j, _, err = q.tryNow(ctx, r, id)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start job %d of %s: %w", id, q.Name, err)
	}
	return j, nil
}

// tryNow starts a job, if there is room. want is what its shard might ask the others for, where there is none.
func (q workerSide) tryNow(ctx context.Context, r rounds.Round, id int64) (j *job.Job, want demand, err error) {
	err = q.db.Tx(ctx, func(tx *engine.Tx) (err error) {
		want = demand{}
		if j, err = q.get(ctx, tx, id, q.db.ForUpdate); err != nil || j.Token == r.Token && j.State == job.Running {
			return err
		}
		var entries []activity.Entry
		if entries, err = q.startOne(ctx, tx, round{Round: r}, j, &want); err != nil {
			return err
		}
		return q.logAs(ctx, tx, r.Worker, entries)
	})
	return j, want, err
}

// startOne starts a job. Where the limit or the rate has no room for it in its shard, want gets what would do.
func (q *Queue) startOne(ctx context.Context, tx *engine.Tx, r round, j *job.Job, want *demand) ([]activity.Entry, error) {
	switch {
	case j.State == job.Final:
		return nil, ErrFinal
	case j.Flaw != nil:
		return nil, j.Flaw
	case j.State != job.Initial && j.State != job.Retry:
		return nil, ErrStarted
	case j.Line == job.LineLocked:
		return nil, ErrLocked
	case j.Line == job.LineNew:
		return nil, ErrNotTakenIn
	}
	shard, ok := q.shardOf(j.Place)
	if !ok {
		return nil, ErrNotTakenIn // until it has its place
	}
	room, err := q.takeTurn(ctx, tx, r.Worker.ID, shard)
	if err != nil {
		return nil, err
	}
	if q.takesTurns() && !room.there {
		number, err := q.divisionOf(ctx, tx)
		if err != nil {
			return nil, err
		}
		return nil, q.otherwiseDivided(number)
	}
	if q.Rate.Starts > 0 {
		if left, _ := q.startsLeft(room, tx.Now); left < 1 {
			*want, err = room.wantsNow(j, tx.Now)
			return nil, err
		}
	}
	if err := q.classify(ctx, tx, room, map[int64]*job.Job{j.ID: j}); err != nil {
		return nil, err
	}
	switch room.fit(j) {
	case groupFull:
		return nil, ErrNoRoom
	case waits:
		*want, err = room.wantsNow(j, tx.Now)
		return nil, err
	}
	if room.row.demand.Job == j.ID { // it was this that was asked for
		if _, err := q.withdraw(ctx, tx, room, demand{}, []*job.Job{j}); err != nil {
			return nil, err
		}
	}
	j.Error, j.Result = job.None, job.None
	return q.markStarted(ctx, tx, r, room, []*job.Job{j}, &rounds.Done{})
}

// errAsked is the ErrNoRoom of a job whose shard asks the others already, mostly for jobs that have waited longer.
var errAsked = fmt.Errorf("%w: its shard has asked the others for more less than %s ago; hipq why says who holds what", ErrNoRoom, demandFor)

// wantsNow is what would do for a job that is to start now, and finds no room, if the other shards may be asked; and the error if they
// lend nothing.
func (r *room) wantsNow(j *job.Job, now time.Time) (demand, error) {
	switch {
	case !r.divided:
		return demand{}, ErrNoRoom
	case r.row.demand.counts(now):
		return demand{}, errAsked
	}
	return demand{Job: j.ID, First: j.ThrottleFactor, Weight: j.ThrottleFactor, Starts: 1}, ErrNoRoom
}
