package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/texts"
)

// Dead is a worker whose row says working, although its lock has expired or its process on this host is gone.
type Dead struct {
	Worker
	Heartbeat engine.Time
	Expired   bool
}

// Dead finds the dead workers that w can see.
func (r *Table) Dead(ctx context.Context, w Worker) (found []Dead, err error) {
	query := "SELECT id, host, pid, process, " + r.db.SQL.TimeColumns("heartbeat") + ", lock_until <= (SELECT " + r.db.SQL.NowSQL + ") AS expired FROM " +
		r.db.Workers() + " " + r.db.SQL.Index(r.db.Workers(), "state") +
		" WHERE state = 'working' AND (lock_until <= (SELECT " + r.db.SQL.NowSQL + ") OR host = ? AND process <> ?)"
	if err := r.db.SQL.SelectContext(ctx, &found, query, w.Host, activity.None); err != nil {
		return nil, fmt.Errorf("look for dead workers: %w", err)
	}
	return slices.DeleteFunc(found, func(d Dead) bool { return !d.Expired && !d.isGone(w) }), nil
}

// isGone says whether it was a process of w's host that is gone. Copies of a host differ only by name.
func (d Dead) isGone(w Worker) bool { return d.Host == w.Host && process.IsGone(d.Process) }

// Reap declares workers dead whose lock has expired, or whose process on w's host is gone, and logs it. They can't renew any
// more, and other workers may take their slots and jobs. First it calls ended for each worker whose lock still holds or that
// was on w's host, to end what that worker left running; what couldn't be ended is logged. found says that it declared some dead. A locked row delays no other.
func (r *Table) Reap(ctx context.Context, w Worker, ended func(workerID string) (left []string)) (found bool, err error) {
	all, err := r.Dead(ctx, w)
	for _, d := range all {
		var left []string
		if !d.Expired || d.Host == w.Host {
			left = ended(d.ID)
		}
		failed := r.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error { return r.declareDead(ctx, tx, w, d, left) })
		if found = found || failed == nil; failed != nil {
			err = errors.Join(err, fmt.Errorf("record dead worker %s: %w", d.ID, failed))
		}
	}
	return found, err
}

// declareDead declares a worker dead, unless it has renewed its lock since.
func (r *Table) declareDead(ctx context.Context, tx *engine.Tx, w Worker, d Dead, left []string) error {
	is, err := engine.Changed(tx.ExecContext(ctx, "UPDATE "+r.db.Workers()+" SET state = 'error', slots = 0, end_time = ?"+
		" WHERE id = ? AND state = 'working' AND heartbeat = ?", engine.At(tx.Now), d.ID, d.Heartbeat))
	if err != nil || !is {
		return err
	}
	why := "worker died: "
	if d.isGone(w) {
		why += "its process is gone, and "
	}
	entry := d.entry(activity.Error)
	entry.Error = why + "its last heartbeat was " + tx.Now.Sub(d.Heartbeat.Time).Round(time.Second).String() + " earlier"
	if len(left) > 0 {
		entry.Error += "; could not end processes of its handlers: " + strings.Join(left, "; ")
	}
	return activity.Write(ctx, tx, r.db, []activity.Entry{entry})
}

// Died counts the workers that died since a time, including those with expired locks that no worker has declared dead yet.
func (r *Table) Died(ctx context.Context, since time.Time) (died int64, err error) {
	query := "SELECT COUNT(*) FROM " + r.db.Workers() + " " + r.db.SQL.Index(r.db.Workers(), "state") +
		" WHERE state = 'error' AND end_time >= ? OR state = 'working' AND lock_until <= (SELECT " + r.db.SQL.NowSQL + ")"
	return died, texts.Wrap(r.db.SQL.GetContext(ctx, &died, query, engine.At(since)), "count the workers that died")
}

// Purge deletes the rows of workers that ended before o.Before, and returns their number. It may be repeated. The last row
// stays, because it says since when no worker has run.
func (r *Table) Purge(ctx context.Context, o activity.PurgeOptions) (deleted int64, err error) {
	last, err := r.Last(ctx)
	if err != nil {
		return 0, err
	}
	// No worker ends before it starts, so the index on the start excludes the recent ones.
	where := " FROM " + r.db.Workers() + " " + r.db.SQL.Index(r.db.Workers(), "start") +
		" WHERE start_time < ? AND end_time < ? AND state <> 'working'"
	args := []any{engine.At(o.Before), engine.At(o.Before)}
	if last != nil {
		where, args = where+" AND id <> ?", append(args, last.ID)
	}
	if o.DryRun {
		return deleted, texts.Wrap(r.db.SQL.GetContext(ctx, &deleted, "SELECT COUNT(*)"+where, args...), "count old workers")
	}
	for {
		began := time.Now()
		var found []string
		if err := r.db.SQL.SelectContext(ctx, &found, "SELECT id"+where+" ORDER BY start_time LIMIT ?", append(args, engine.PurgeBatch)...); err != nil {
			return deleted, fmt.Errorf("find old workers: %w", err)
		}
		// One by one: with a list of ids MySQL may scan the table, and wait for the live workers' rows.
		err := r.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
			for _, id := range found {
				if err := tx.Write(ctx, "DELETE FROM "+r.db.Workers()+" WHERE id = ?", id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return deleted, fmt.Errorf("delete old workers: %w", err)
		}
		deleted += int64(len(found))
		if o.Tell(deleted); len(found) < engine.PurgeBatch {
			return deleted, nil
		}
		if err := r.db.SQL.Breathe(ctx, r.db.Workers(), began); err != nil {
			return deleted, err
		}
	}
}
