package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

const purgePage = 2000

// PurgeOptions configure Purge.
type PurgeOptions struct {
	// DryRun counts what would be deleted, and deletes nothing.
	DryRun bool
	// OnDeleted, if set, is called after each batch with the total so far.
	OnDeleted func(deleted int64)
	// OnKept, if set, is called with each old job that a foreign key or a trigger of the application keeps in the table.
	OnKept func(id int64, why error)
}

// Purge deletes final jobs past the queue's retention, and counts them. It reads the whole table by primary key, in small
// steps that lock only deleted rows. It may be interrupted and repeated, and is safe for concurrent use.
func (q *Queue) Purge(ctx context.Context, o PurgeOptions) (finished, failed int64, err error) {
	now, err := q.s.DB().SQL.Clock(ctx)
	p := purge{Queue: q, PurgeOptions: o, now: now}
	for after, last := int64(-1), int64(0); err == nil && last > after; {
		after = last
		last, err = p.page(ctx, after)
	}
	return p.finished, p.failed, texts.Wrap(err, "purge %s", q.s.Name)
}

type purge struct {
	*Queue
	PurgeOptions
	now              time.Time
	finished, failed int64
}

// page deletes old jobs in the page after an ID, and returns the page's last ID.
func (p *purge) page(ctx context.Context, after int64) (last int64, err error) {
	var rows []struct {
		ID            int64
		Finished, Old bool
	}
	query := "SELECT id, status = 'finished' AS finished, (status = 'finished' AND update_time < ? OR status IN ('failed', 'closed') AND update_time < ?) AS old" +
		" FROM " + p.s.Table() + " " + p.s.DB().SQL.ByID + " WHERE id > ? ORDER BY id LIMIT ?"
	err = p.s.DB().SQL.SelectContext(ctx, &rows, query, engine.At(p.now.Add(-p.s.KeepFinished)), engine.At(p.now.Add(-p.s.KeepFailed)), after, purgePage)
	if err != nil {
		return after, fmt.Errorf("find old jobs: %w", err)
	}
	last = after
	old := map[bool][]any{} // by whether they finished
	for _, r := range rows {
		if last = r.ID; r.Old {
			old[r.Finished] = append(old[r.Finished], r.ID)
		}
	}
	if err := p.delete(ctx, job.StatusFinished, old[true], &p.finished); err != nil {
		return last, err
	}
	return last, p.delete(ctx, job.StatusFailed, old[false], &p.failed)
}

func (p *purge) delete(ctx context.Context, status job.Status, ids []any, deleted *int64) error {
	if p.DryRun {
		*deleted += int64(len(ids))
		return nil
	}
	for batch := range slices.Chunk(ids, engine.PurgeBatch) {
		began := time.Now()
		n, err := p.s.DB().SQL.DeleteRows(ctx, p.s.Table(), batch, store.HasEnded(status), func(id any, why error) {
			if n, ok := id.(int64); ok && p.OnKept != nil {
				p.OnKept(n, why)
			}
		})
		if err != nil {
			return fmt.Errorf("delete old jobs: %w", err)
		}
		if *deleted += n; p.OnDeleted != nil {
			p.OnDeleted(p.finished + p.failed)
		}
		if err := engine.Breathe(ctx, began); err != nil {
			return err
		}
	}
	return nil
}
