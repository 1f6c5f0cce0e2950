package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// ErrLockLost means that a worker didn't renew its lock in time: others take its jobs.
var ErrLockLost = errors.New("worker lost its lock")

// registry is the table of workers, as one of them uses it.
type registry struct {
	db  *schema.DB
	log *activity.Log
	queue.Worker
	lockFor time.Duration
}

func (r registry) entry(state activity.State) activity.Entry {
	return activity.Entry{Kind: activity.Worker, State: state, WorkerID: r.ID, Host: r.Host, PID: r.PID}
}

// register makes the worker known, with a lock and no slots yet.
func (r registry) register(ctx context.Context) error {
	return r.insert(ctx, "working", r.lockFor, activity.Starting)
}

// pass records a worker that found nothing to do: its row and both of its entries, at the cost of one commit.
func (r registry) pass(ctx context.Context) error {
	return r.insert(ctx, "finished", 0, activity.Starting, activity.Finished)
}

func (r registry) insert(ctx context.Context, state string, lockFor time.Duration, happened ...activity.State) error {
	var entries []activity.Entry
	for _, h := range happened {
		entries = append(entries, r.entry(h))
	}
	err := r.db.Tx(ctx, func(tx *schema.Tx) error {
		now, end := schema.At(tx.Now), schema.Time{}
		if state != "working" {
			end = now
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO "+r.db.Workers()+" (id, host, pid, state, slots, start_time, heartbeat, lock_until, end_time)"+
			" VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?)", r.ID, r.Host, r.PID, state, now, now, schema.At(tx.Now.Add(lockFor)), end)
		if schema.IsDuplicate(err) {
			return nil // the commit before this one was not answered; it wrote the activity too
		}
		if err != nil {
			return err
		}
		return r.log.Record(ctx, tx, entries)
	})
	if err != nil {
		return fmt.Errorf("register the worker: %w", err)
	}
	return nil
}

// renew makes the worker's lock, and with it all of its jobs' locks, last lockFor from now. ErrLockLost if another has
// declared it dead.
func (r registry) renew(ctx context.Context) error {
	return r.db.Tx(ctx, func(tx *schema.Tx) error {
		res, err := tx.ExecContext(ctx, "UPDATE "+r.db.Workers()+" SET heartbeat = ?, lock_until = ? WHERE id = ? AND state = 'working'",
			schema.At(tx.Now), schema.At(tx.Now.Add(r.lockFor)), r.ID)
		if err != nil {
			return fmt.Errorf("renew the lock: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(ErrLockLost, err)
		}
		return nil
	})
}

// claimSlots takes what this host's other live workers leave of each lane, and keeps at least those in use, for the others
// may have been told a higher limit. Those who claim take turns.
func (r registry) claimSlots(ctx context.Context, claims map[string]claim) (got map[string]int, err error) {
	err = r.db.Tx(ctx, func(tx *schema.Tx) error {
		if err := r.db.TakeTurns(ctx, tx, r.db.Workers()); err != nil {
			return err
		}
		others, err := r.othersSlots(ctx, tx)
		if err != nil {
			return err
		}
		got = map[string]int{}
		for lane, c := range claims {
			got[lane] = max(c.inUse, min(c.want, c.limit-others[lane]))
		}
		for lane, c := range claims { // no more of a lane than can run at all
			got[lane] = max(c.inUse, min(got[lane], got[""]))
		}
		return r.setSlots(ctx, tx, got)
	})
	if err != nil {
		return nil, fmt.Errorf("claim slots on this host: %w", err)
	}
	return got, nil
}

// othersSlots are those of this host's other live workers, by lane; "" is the lane of all jobs.
func (r registry) othersSlots(ctx context.Context, tx *schema.Tx) (map[string]int, error) {
	var rows []queue.Slots
	err := tx.SelectContext(ctx, &rows, "SELECT host, slots, lanes FROM "+r.db.Workers()+
		" WHERE state = 'working' AND lock_until > ? AND host = ? AND id <> ?", schema.At(tx.Now), r.Host, r.ID)
	if err != nil {
		return nil, err
	}
	slots := map[string]int{}
	for _, row := range rows {
		byLane, err := row.ByLane()
		if err != nil {
			return nil, err
		}
		for lane, n := range byLane {
			slots[lane] += n
		}
	}
	return slots, nil
}

func (r registry) setSlots(ctx context.Context, tx *schema.Tx, slots map[string]int) error {
	lanes, err := queue.EncodeLanes(slots)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE "+r.db.Workers()+" SET slots = ?, lanes = ? WHERE id = ? AND state = 'working'", slots[""], lanes, r.ID)
	return err
}

// leaveSlots keeps so many slots of each lane and leaves the others to the host's other workers.
func (r registry) leaveSlots(ctx context.Context, keep map[string]int) error {
	if err := r.db.Tx(ctx, func(tx *schema.Tx) error { return r.setSlots(ctx, tx, keep) }); err != nil {
		return fmt.Errorf("leave slots: %w", err)
	}
	return nil
}

// anyDead says whether there are workers to bury.
func (r registry) anyDead(ctx context.Context) (bool, error) {
	var found bool
	err := r.db.GetContext(ctx, &found, "SELECT EXISTS (SELECT 1 FROM "+r.db.Workers()+" WHERE state = 'working' AND lock_until <= (SELECT "+r.db.Now+"))")
	if err != nil {
		return false, fmt.Errorf("look for dead workers: %w", err)
	}
	return found, nil
}

// bury declares workers whose lock has expired dead and logs it. From then on they can't renew, and their jobs are
// anybody's to reclaim.
func (r registry) bury(ctx context.Context) error {
	err := r.db.Tx(ctx, func(tx *schema.Tx) error {
		var dead []struct {
			ID        string
			Host      string
			PID       int
			Heartbeat schema.Time
		}
		query := "SELECT id, host, pid, heartbeat FROM " + r.db.Workers() + " WHERE state = 'working' AND lock_until <= ? " + r.db.SkipLocked
		if err := tx.SelectContext(ctx, &dead, query, schema.At(tx.Now)); err != nil {
			return err
		}
		var entries []activity.Entry
		for _, d := range dead {
			_, err := tx.ExecContext(ctx, "UPDATE "+r.db.Workers()+" SET state = 'error', slots = 0, end_time = ? WHERE id = ? AND state = 'working'",
				schema.At(tx.Now), d.ID)
			if err != nil {
				return err
			}
			entries = append(entries, activity.Entry{
				Kind: activity.Worker, State: activity.Error, WorkerID: d.ID, Host: d.Host, PID: d.PID,
				Error: "worker died: its last heartbeat was at " + d.Heartbeat.Format(time.RFC3339),
			})
		}
		return r.log.Record(ctx, tx, entries)
	})
	if err != nil {
		return fmt.Errorf("record dead workers: %w", err)
	}
	return nil
}

// end ends the worker's row, as finished or error. remark, if any, goes to the activity.
func (r registry) end(ctx context.Context, state, remark string) error {
	err := r.db.Tx(ctx, func(tx *schema.Tx) error {
		res, err := tx.ExecContext(ctx, "UPDATE "+r.db.Workers()+" SET state = ?, slots = 0, end_time = ? WHERE id = ? AND state = 'working'",
			state, schema.At(tx.Now), r.ID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err // declared dead, or finished by a commit that was not answered
		}
		entry := r.entry(activity.State(state))
		entry.Error = remark
		return r.log.Record(ctx, tx, []activity.Entry{entry})
	})
	if err != nil {
		return fmt.Errorf("sign off the worker: %w", err)
	}
	return nil
}
