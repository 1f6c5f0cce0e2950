package store

import (
	"context"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// SetProgress saves the progress that a worker's attempts reported, for those that still run under their tokens. It never
// waits for locks: held are the reports whose rows another transaction locks. It may be repeated.
func (q *Queue) SetProgress(ctx context.Context, workerID string, said []Said) (held []Said, err error) {
	args := append(texts.Map(said, func(s Said) any { return s.Job.ID }), workerID)
	query := "SELECT id FROM " + q.table + " " + q.db.SQL.ByID + " WHERE id IN " + notAlone(len(said)) + " AND worker_id = ? "
	err = q.db.SQL.TxInPassing(ctx, func(tx *engine.Tx) error {
		locked, err := q.IDs(ctx, tx, query+tx.SkipLocked, args...)
		if err != nil {
			return err
		}
		held = nil
		for _, s := range said {
			if !slices.Contains(locked, any(s.Job.ID)) {
				held = append(held, s)
				continue
			}
			if err := q.noteProgress(ctx, tx, s); err != nil {
				return err
			}
		}
		return nil
	})
	return held, texts.Wrap(err, "save the progress of jobs of %s", q.Name)
}

func (q *Queue) noteProgress(ctx context.Context, tx *engine.Tx, s Said) error {
	now, nowArgs := tx.Stamp()
	args := append([]any{s.Progress.Percent, s.Progress.Note, s.Job.Attempt}, nowArgs...)
	// where rows can't be locked, as on TiDB, another attempt may own it by now
	return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+
		" SET progress = ?, progress_note = ?, progress_attempt = ?, progress_time = "+now+
		" WHERE id = ? AND status = 'running' AND attempt = ? AND lock_token = ?",
		append(args, s.Job.ID, s.Job.Attempt, s.Job.Token)...)
}
