package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// StartNow locks and starts one waiting job. It ignores the job's time and windows, the order, and a pause, but not the
// limits or the rate. It fails with ErrStarted, ErrFinal, ErrNotFound, ErrNotIngested or ErrNoRoom, or with ErrLocked if a
// worker has the job. It may be repeated with the same round.
func (q *Queue) StartNow(ctx context.Context, r Round, id int64) (j *job.Job, err error) {
	try := func(tx *engine.Tx) (err error) {
		if j, err = q.Get(ctx, tx, id, q.db.SQL.ForUpdate); err != nil || j.Token == r.Token && j.Status == job.StatusRunning {
			return err
		}
		return q.startOne(ctx, tx, r, j)
	}
	if err = q.db.SQL.Tx(ctx, try); errors.Is(err, errShareFull) {
		if err = q.shards().divideShares(ctx, j); err == nil {
			err = q.db.SQL.Tx(ctx, try)
		}
	}
	return j, texts.Wrap(err, "start job %d of %s", id, q.Name)
}

// errShareFull is the ErrNoRoom of a job whose shard has too small a share: other shards may have some left.
var errShareFull = fmt.Errorf("%w: hipq why says what its shard holds", ErrNoRoom)

func (q *Queue) startOne(ctx context.Context, tx *engine.Tx, r Round, j *job.Job) error {
	switch {
	case j.Status.IsFinal():
		return ErrFinal
	case j.Invalid != nil:
		return j.Invalid
	case j.State() != job.Initial && j.State() != job.Retry:
		return ErrStarted
	case j.Status == job.StatusLocked:
		return ErrLocked
	case j.Status == job.StatusSubmitted:
		return ErrNotIngested
	}
	shard, ok := q.shardOf(j.Place)
	if !ok {
		return ErrNotIngested // a worker has yet to place it
	}
	turn, err := q.takeTurn(ctx, tx, r.Worker.ID, shard)
	if err != nil {
		return err
	}
	if q.TakesTurns() && turn.row.Place == 0 { // the shard's row is missing
		return cmp.Or(q.checkDivision(ctx, tx), ErrShards)
	}
	if err := q.classify(ctx, tx, []*job.Job{j}); err != nil {
		return err
	}
	if _, err := turn.lookAt(ctx, map[string]bool{j.Group: true}); err != nil {
		return err
	}
	if limit := turn.Limits[claim.Queue]; limit != nil && !limit.HasRoom(j.ThrottleFactor) && !turn.recounted {
		if err := turn.recount(ctx); err != nil {
			return err
		}
	}
	r.Candidates = q.Candidates(shard, []string{j.Type})
	c := &start{turn: turn, round: r}
	one := c.asClaimed(candidate{job: j})
	one.Opens, one.Held, one.InLine = time.Time{}, false, false // it waits for nothing but room
	switch d := turn.Limits.Decide([]claim.Job{one}, 1, tx.Now)[0]; {
	case d.Action == claim.Start:
	case d.Lacks == one.Group || !q.isDivided():
		return ErrNoRoom
	default:
		return errShareFull
	}
	j.Error, j.Result = job.None, job.None
	return c.begin(ctx, []*job.Job{j})
}

// TakeOver transfers a running attempt from the worker that began it under the token to another worker. It fails with
// ErrStarted if the first worker no longer has it. It may be repeated.
func (q *Queue) TakeOver(ctx context.Context, worker string, id int64, from, token string) (j *job.Job, err error) {
	err = q.db.SQL.Tx(ctx, func(tx *engine.Tx) (err error) {
		if j, err = q.Get(ctx, tx, id, q.db.SQL.ForUpdate); err != nil {
			return err
		}
		if j.Status != job.StatusRunning || j.Token != token || j.WorkerID != from && j.WorkerID != worker {
			return ErrStarted
		}
		j.WorkerID = worker
		return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET worker_id = ? WHERE id = ?", worker, id)
	})
	return j, texts.Wrap(err, "take over job %d of %s", id, q.Name)
}
