package queue

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/schema"
)

// Locked is a job that a worker has a claim on and hasn't started. The claim is good only if the row still carries the
// token: Start finds out.
type Locked struct {
	ID    int64
	Type  string
	Token string
}

// Locker takes jobs from the line for one worker. It is not safe for concurrent use.
//
// Where a database leaves dead entries in an index (schema.Dialect.LeavesDead) it goes on after the last entry that it
// took, instead of walking over all that were taken before; and once a second it looks at the head of the line again,
// for what came in with a better priority.
type Locker struct {
	q      *Queue
	worker string
	types  []string
	// after is where each type's last lock ended.
	after  map[string]candidate
	headAt time.Time
	// unanswered is the token of a lock that ended in an error: what it took, if anything, carries it.
	unanswered string
}

// headEvery is how long a job that should be next may be passed over.
const headEvery = time.Second

// NewLocker is a Locker of jobs of these types for a worker.
func (q *Queue) NewLocker(worker string, types []string) *Locker {
	return &Locker{q: q, worker: worker, types: types, after: map[string]candidate{}}
}

// candidate is an entry of the line.
type candidate struct {
	ID               int64       `db:"id"`
	Priority         int         `db:"priority"`
	ScheduledRunTime schema.Time `db:"scheduled_run_time"`
	ThrottleFactor   int         `db:"throttle_factor"`
	Type             string      `db:"job_type"`
}

// Lock takes up to n jobs that are due, in their order: priority, scheduled run time, id. With a throttle limit it takes
// no more than fits beside all that is locked or running.
func (l *Locker) Lock(ctx context.Context, n int) ([]Locked, error) {
	token, repeated := l.unanswered, l.unanswered != ""
	if token == "" {
		fresh, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make a lock token: %w", err)
		}
		token = fresh.String()
	}
	var taken []candidate
	l.unanswered = token
	err := l.q.db.Tx(ctx, func(tx *schema.Tx) (err error) {
		if taken = nil; repeated {
			// the commit before this one may have succeeded: a claim is what carries the token
			if taken, err = l.carrying(ctx, tx, token); err != nil || len(taken) > 0 {
				return err
			}
		}
		repeated = true
		taken, err = l.lock(ctx, tx, token, n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lock jobs of %s: %w", l.q.Name, err)
	}
	l.unanswered = ""
	locked := make([]Locked, len(taken))
	for i, c := range taken {
		locked[i] = Locked{ID: c.ID, Type: c.Type, Token: token}
		l.after[c.Type] = c
	}
	return locked, nil
}

// InDoubt says whether a Lock ended in an error and may have taken jobs all the same: the next Lock finds them.
func (l *Locker) InDoubt() bool { return l.unanswered != "" }

// GiveUp gives back what a Lock that ended in an error may have taken all the same. It may be repeated.
func (l *Locker) GiveUp(ctx context.Context) error {
	if l.unanswered == "" {
		return nil
	}
	var taken []candidate
	err := l.q.db.Tx(ctx, func(tx *schema.Tx) (err error) {
		taken, err = l.carrying(ctx, tx, l.unanswered)
		return err
	})
	if err != nil {
		return fmt.Errorf("find what a lock of %s took: %w", l.q.Name, err)
	}
	locked := make([]Locked, len(taken))
	for i, c := range taken {
		locked[i] = Locked{ID: c.ID, Type: c.Type, Token: l.unanswered}
	}
	if err := l.q.Release(ctx, locked); err != nil {
		return err
	}
	l.unanswered = ""
	return nil
}

func (l *Locker) lock(ctx context.Context, tx *schema.Tx, token string, n int) ([]candidate, error) {
	var paused bool
	if err := tx.GetContext(ctx, &paused, "SELECT "+l.q.paused(), l.q.Name); err != nil || paused {
		return nil, err
	}
	room, err := l.q.throttle(ctx, tx)
	if err != nil {
		return nil, err
	}
	found, err := l.find(ctx, tx, n)
	if err != nil {
		return nil, err
	}
	taken := room.fit(found)
	if len(taken) == 0 {
		return nil, nil
	}
	args := []any{l.worker, token}
	for _, c := range taken {
		args = append(args, c.ID)
	}
	res, err := tx.ExecContext(ctx, "UPDATE "+l.q.table+" "+l.q.db.ByID+
		" SET line = 'locked', worker_id = ?, lock_token = ? WHERE line = 'due' AND id IN "+schema.In(len(taken)), args...)
	if err != nil {
		return nil, err
	}
	return taken, mustHit(res, len(taken))
}

// carrying reads the jobs that carry a token.
func (l *Locker) carrying(ctx context.Context, tx *schema.Tx, token string) (found []candidate, err error) {
	err = tx.SelectContext(ctx, &found, "SELECT id, job_type, priority, scheduled_run_time, throttle_factor FROM "+l.q.table+" "+
		l.q.index("pick")+" WHERE line = 'locked' AND lock_token = ? ORDER BY priority, scheduled_run_time, id", token)
	return found, err
}

// find reads the first n due jobs, in order.
func (l *Locker) find(ctx context.Context, tx *schema.Tx, n int) ([]candidate, error) {
	// with a limit the first may be held back and one behind it taken: what was held back must not be passed over
	if !l.q.db.LeavesDead || l.q.ThrottleLimit > 0 || tx.Now.Sub(l.headAt) >= headEvery {
		l.headAt = tx.Now
		clear(l.after)
	}
	found, err := l.walk(ctx, tx, n)
	if err != nil || len(found) == n || len(l.after) == 0 {
		return found, err
	}
	// the end of the line: what came in behind us meanwhile is at the head
	l.headAt = tx.Now
	clear(l.after)
	return l.walk(ctx, tx, n)
}

// walk reads the first n due jobs of each type, for each type has a range of the index of its own, and merges them.
func (l *Locker) walk(ctx context.Context, tx *schema.Tx, n int) ([]candidate, error) {
	var found []candidate
	weight := "" // all else is in the index
	if l.q.ThrottleLimit > 0 {
		weight = ", throttle_factor"
	}
	for _, name := range l.types {
		query := "SELECT id, job_type, priority, scheduled_run_time" + weight + " FROM " + l.q.table + " " + l.q.index("pick") +
			" WHERE line = 'due' AND job_type = ?"
		args := []any{name}
		if last, ok := l.after[name]; ok {
			// spelled out, for MySQL walks no range of an index for (a, b, c) > (?, ?, ?)
			query += " AND (priority > ? OR (priority = ? AND scheduled_run_time > ?) OR (priority = ? AND scheduled_run_time = ? AND id > ?))"
			args = append(args, last.Priority, last.Priority, last.ScheduledRunTime, last.Priority, last.ScheduledRunTime, last.ID)
		}
		query += " ORDER BY priority, scheduled_run_time, id LIMIT ? " + l.q.db.SkipLocked
		var rows []candidate
		if err := tx.SelectContext(ctx, &rows, query, append(args, n)...); err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	if len(l.types) > 1 {
		slices.SortFunc(found, candidate.compare)
	}
	return found[:min(n, len(found))], nil
}

func (c candidate) compare(d candidate) int {
	return cmp.Or(cmp.Compare(c.Priority, d.Priority), c.ScheduledRunTime.Compare(d.ScheduledRunTime.Time), cmp.Compare(c.ID, d.ID))
}

// Release gives jobs that were locked and not started back to the line, at no cost in attempts. Those that are no longer
// under their lock stay as they are. It may be repeated.
func (q *Queue) Release(ctx context.Context, jobs []Locked) error {
	for token, ids := range byToken(jobs) {
		err := q.db.Tx(ctx, func(tx *schema.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET line = 'due', worker_id = 'NONE', lock_token = 'NONE'"+
				" WHERE line = 'locked' AND state IN ('initial', 'retry') AND lock_token = ? AND id IN "+schema.In(len(ids)),
				append([]any{token}, ids...)...)
			return err
		})
		if err != nil {
			return fmt.Errorf("give back jobs of %s: %w", q.Name, err)
		}
	}
	return nil
}

// mustHit makes sure that a statement has hit the n rows that are locked for it.
func mustHit(res sql.Result, n int) error {
	hit, err := res.RowsAffected()
	if err == nil && int(hit) != n {
		err = fmt.Errorf("%d of %d rows were not as they had been read under their lock", n-int(hit), n)
	}
	return err
}

func byToken(jobs []Locked) map[string][]any {
	ids := map[string][]any{}
	for _, j := range jobs {
		ids[j.Token] = append(ids[j.Token], j.ID)
	}
	return ids
}
