package roster

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/record"
)

// AnyDead says whether there are workers to bury.
func (r *Roster) AnyDead(ctx context.Context) (bool, error) {
	var found bool
	err := r.db.GetContext(ctx, &found, "SELECT EXISTS (SELECT 1 FROM "+r.db.Workers()+" WHERE state = 'working' AND lock_until <= (SELECT "+r.db.Now+"))")
	if err != nil {
		return false, fmt.Errorf("look for dead workers: %w", err)
	}
	return found, nil
}

// Bury declares workers whose lock has expired dead and logs it. From then on they can't renew, and their jobs are
// anybody's to reclaim.
func (r *Roster) Bury(ctx context.Context) error {
	err := r.db.Tx(ctx, func(tx *engine.Tx) error {
		var dead []struct {
			ID        string
			Host      string
			PID       int
			Heartbeat engine.Time
		}
		query := "SELECT id, host, " + readPID + ", " + r.db.TimeColumns("heartbeat") + " FROM " + r.db.Workers() + " WHERE state = 'working' AND lock_until <= ? " + tx.SkipLocked
		if err := tx.SelectContext(ctx, &dead, query, engine.At(tx.Now)); err != nil {
			return err
		}
		var entries []activity.Entry
		for _, d := range dead {
			_, err := tx.ExecContext(ctx, "UPDATE "+r.db.Workers()+" SET state = 'error', slots = 0, end_time = ? WHERE id = ? AND state = 'working'",
				engine.At(tx.Now), d.ID)
			if err != nil {
				return err
			}
			entries = append(entries, activity.Entry{
				Kind: activity.Worker, State: activity.Error, WorkerID: d.ID, Host: d.Host, PID: d.PID,
				Error: "worker died: its last heartbeat was " + tx.Now.Sub(d.Heartbeat.Time).Round(time.Second).String() + " before",
			})
		}
		return record.Entries(ctx, tx, r.db, entries)
	})
	if err != nil {
		return fmt.Errorf("record dead workers: %w", err)
	}
	return nil
}

// Died is how many workers have died since a time, with those that nobody has found dead yet.
func (r *Roster) Died(ctx context.Context, since time.Time) (died int64, err error) {
	query := "SELECT COUNT(*) FROM " + r.db.Workers() + " " + r.db.Index(r.db.Workers(), "state") +
		" WHERE state = 'error' AND end_time >= ? OR state = 'working' AND lock_until <= (SELECT " + r.db.Now + ")"
	if err := r.db.GetContext(ctx, &died, query, engine.At(since)); err != nil {
		return 0, fmt.Errorf("count the workers that died: %w", err)
	}
	return died, nil
}
