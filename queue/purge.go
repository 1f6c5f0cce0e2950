package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// purgePage is how many rows one query reads.
const purgePage = 2000

// PurgeOptions say how Purge goes about it.
type PurgeOptions struct {
	// DryRun counts what would go, and deletes nothing.
	DryRun bool
	// OnDeleted, if there is one, is told after each batch how many jobs are deleted by now.
	OnDeleted func(deleted int64)
}

// Purge deletes final jobs past the queue's retention, and gives their numbers; a dry run only counts them. It walks the
// whole table by primary key, in small steps that lock nothing but the rows that go, between which others get their
// turn. When it is interrupted, what it had deleted is gone; it may be repeated, and run by several at once.
func (q *Queue) Purge(ctx context.Context, o PurgeOptions) (finished, failed int64, err error) {
	now, err := q.db.Clock(ctx)
	if err != nil {
		return 0, 0, err
	}
	p := purge{q: q, finishedBefore: now.Add(-q.KeepFinished), failedBefore: now.Add(-q.KeepFailed), PurgeOptions: o}
	if err := p.run(ctx); err != nil {
		return p.finished, p.failed, fmt.Errorf("purge %s: %w", q.Name, err)
	}
	return p.finished, p.failed, nil
}

type purge struct {
	q                            *Queue
	finishedBefore, failedBefore time.Time
	PurgeOptions
	finished, failed int64
}

func (p *purge) run(ctx context.Context) error {
	for after, more := int64(0), true; more; {
		finished, failed, last, err := p.page(ctx, after)
		if err != nil {
			return err
		}
		after, more = last, last > after
		if err := p.delete(ctx, job.StatusFinished, finished, &p.finished); err != nil {
			return err
		}
		if err := p.delete(ctx, job.StatusFailed, failed, &p.failed); err != nil {
			return err
		}
	}
	return nil
}

// page reads the rows that follow an id, and gives the ids of those that go and the last that it saw.
func (p *purge) page(ctx context.Context, after int64) (finished, failed []any, last int64, err error) {
	var rows []struct {
		ID     int64
		Status job.Status
		Old    bool
	}
	query := "SELECT id, status, (status = 'finished' AND update_time < ? OR status IN ('failed', 'closed') AND update_time < ?) AS old" +
		" FROM " + p.q.table + " " + p.q.db.ByID + " WHERE id > ? ORDER BY id LIMIT ?"
	err = p.q.db.SelectContext(ctx, &rows, query, engine.At(p.finishedBefore), engine.At(p.failedBefore), after, purgePage)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("find old jobs: %w", err)
	}
	last = after
	for _, r := range rows {
		last = r.ID
		switch {
		case !r.Old:
		case r.Status == job.StatusFinished:
			finished = append(finished, r.ID)
		default:
			failed = append(failed, r.ID)
		}
	}
	return finished, failed, last, nil
}

// delete deletes in batches.
func (p *purge) delete(ctx context.Context, status job.Status, ids []any, deleted *int64) error {
	if p.DryRun {
		*deleted += int64(len(ids))
		return nil
	}
	for batch := range slices.Chunk(ids, engine.PurgeBatch) {
		var n int64
		began := time.Now()
		err := p.q.db.Tx(ctx, func(tx *engine.Tx) error {
			statement, args := p.q.deleteFinal(status, batch)
			res, err := tx.ExecContext(ctx, statement, args...)
			if err != nil {
				return err
			}
			n, err = res.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("delete old jobs: %w", err)
		}
		*deleted += n
		if p.OnDeleted != nil {
			p.OnDeleted(p.finished + p.failed)
		}
		if err := engine.Breathe(ctx, began); err != nil {
			return err
		}
	}
	return nil
}

// deleteFinal is the statement that deletes those of the jobs that are of a final status, with its parameters. Of those
// that failed, some may have been closed.
func (q *Queue) deleteFinal(status job.Status, ids []any) (statement string, args []any) {
	condition, of := "t.status = ?", []any{status}
	if status != job.StatusFinished {
		condition, of = "t.status IN (?, ?)", []any{job.StatusFailed, job.StatusClosed}
	}
	return q.db.DeleteByID(q.table, len(ids), condition), slices.Concat(ids, of)
}
