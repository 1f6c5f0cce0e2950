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
	// OnDeleted, if set, is called after each batch with how many are deleted, or counted, so far.
	OnDeleted func(deleted int64)
	// OnKept, if set, is called with each old job that a foreign key or a trigger of the application keeps in the table.
	OnKept func(id int64, why error)
}

// Purge deletes final jobs past the queue's retention, and counts them, in small steps that lock only deleted rows. It reads old jobs
// by their run time; beside very many priorities, which make that dear, the whole table. It may be interrupted and repeated, and is
// safe for concurrent use. A job that ended before its run time, because its next attempt was scheduled, may stay until then.
func (q *Queue) Purge(ctx context.Context, o PurgeOptions) (finished, failed int64, err error) {
	now, err := q.s.DB().SQL.Clock(ctx)
	p := purge{Queue: q, PurgeOptions: o, now: now}
	all := true
	if err == nil {
		all, err = p.byTime(ctx)
	}
	for after, last := int64(-1), int64(0); !all && err == nil && last > after; {
		after = last
		last, err = p.page(ctx, after)
	}
	return p.finished, p.failed, texts.Wrap(err, "purge %s", q.s.Name)
}

// byTime deletes old jobs by the claim index; all is false if it has too many stretches.
func (p *purge) byTime(ctx context.Context) (all bool, err error) {
	for _, status := range stored[Final] {
		old, total, early := p.now.Add(-p.s.KeepFailed), &p.failed, ""
		if status == string(job.StatusFinished) {
			old, total = p.now.Add(-p.s.KeepFinished), &p.finished
		} else {
			early = "attempt = 0 OR " // cancelled before they were due, or refused
		}
		stretches, err := p.stretchesOf(ctx, status)
		if err != nil || len(stretches) > stretchesMost {
			return false, err
		}
		for _, s := range stretches {
			w := s.Where()
			w.And("t.scheduled_run_time < ?", engine.At(old))
			if err = p.stretch(ctx, w, job.Status(status), old, total); err == nil {
				w = s.Where()
				w.And("t.scheduled_run_time >= ? AND ("+early+"t.scheduled_run_time > ?)", engine.At(old), engine.At(p.now))
				err = p.stretch(ctx, w, job.Status(status), old, total)
			}
			if err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// stretch deletes the selected jobs that ended before a time.
func (p *purge) stretch(ctx context.Context, w engine.Where, status job.Status, before time.Time, total *int64) error {
	table, after := p.s.Table(), place{At: engine.At(time.Unix(0, 0)).Format("2006-01-02 15:04:05")}
	for {
		page := w.Clone()
		page.And("t.scheduled_run_time >= ? AND (t.scheduled_run_time > ? OR id > ?)", after.At, after.At, after.ID)
		query := "SELECT p.id, p.at, j.update_time < ? AS old FROM (SELECT id, " + p.s.DB().SQL.TimeText("t.scheduled_run_time") + " AS at FROM " + table + " AS t " + p.s.ClaimIndex() + page.SQL() +
			" ORDER BY t.scheduled_run_time, id LIMIT ?) AS p JOIN " + table + " AS j ON j.id = p.id ORDER BY p.at, p.id"
		var rows []struct {
			place
			Old bool
		}
		if err := p.s.DB().SQL.SelectContext(ctx, &rows, query, append(append([]any{engine.At(before)}, page.Args...), purgePage)...); err != nil {
			return fmt.Errorf("find old jobs: %w", err)
		}
		var ids []any
		for _, row := range rows {
			if after = row.place; row.Old {
				ids = append(ids, row.ID)
			}
		}
		if err := p.delete(ctx, status, ids, total); err != nil || len(rows) < purgePage {
			return err
		}
	}
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
		p.tell()
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
		*deleted += n
		p.tell()
		if err := p.s.DB().SQL.Breathe(ctx, p.s.DB().Workers(), began); err != nil {
			return err
		}
	}
	return nil
}

func (p *purge) tell() {
	if p.OnDeleted != nil {
		p.OnDeleted(p.finished + p.failed)
	}
}
