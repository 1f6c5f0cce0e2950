package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// StartNow implements rounds.Queue.
func (q workerSide) StartNow(ctx context.Context, r rounds.Round, id int64) (*job.Job, error) {
	var j *job.Job
	err := q.db.Tx(ctx, func(tx *engine.Tx) (err error) {
		if j, err = q.get(ctx, tx, id, q.db.ForUpdate); err != nil || j.Token == r.Token && j.State == job.Running {
			return err
		}
		var entries []activity.Entry
		if entries, err = q.startOne(ctx, tx, round{Round: r}, j); err != nil {
			return err
		}
		return q.logAs(ctx, tx, r.Worker, entries)
	})
	if err != nil {
		return nil, fmt.Errorf("start job %d of %s: %w", id, q.Name, err)
	}
	return j, nil
}

func (q *Queue) startOne(ctx context.Context, tx *engine.Tx, r round, j *job.Job) ([]activity.Entry, error) {
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
	room, err := q.takeTurn(ctx, tx, r.Worker.ID)
	if err != nil {
		return nil, err
	}
	if q.Rate.Starts > 0 {
		if left, _ := room.starts.Left(q.Rate, tx.Now); left < 1 {
			return nil, ErrNoRoom
		}
	}
	if err := q.classify(ctx, tx, room, map[int64]*job.Job{j.ID: j}); err != nil {
		return nil, err
	}
	if room.fit(j) != fits {
		return nil, ErrNoRoom
	}
	j.Error, j.Result = job.None, job.None
	return q.markStarted(ctx, tx, r, room, []*job.Job{j}, &rounds.Done{})
}
