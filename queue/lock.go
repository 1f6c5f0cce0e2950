package queue

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
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
	// Urgent: to be started outside of its windows, and in a paused queue.
	Urgent bool
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
	// after is where the last lock ended.
	after  cursor
	headAt time.Time
	// free says that there were jobs which no limit holds back, at freeAt.
	free   bool
	freeAt time.Time
	// groupAt is the group that holds jobs back at which a lock has looked last.
	groupAt string
	// more says that the last lock ended before it had seen all of the line; wait how long the queue's rate lets none start.
	more bool
	wait time.Duration
	// unanswered is the token of a lock that ended in an error: what it took, if anything, carries it.
	unanswered string
}

// headEvery is how long a job that should be next may be passed over.
const headEvery = time.Second

// NewLocker is a Locker of jobs of these types for a worker.
func (q *Queue) NewLocker(worker string, types []string) *Locker {
	return &Locker{q: q, worker: worker, types: types, after: cursor{}}
}

// Lock takes up to n jobs that are due, in the queue's order. With limits it takes no more than fits beside all that is
// locked or running, and with a rate no more than may be started now.
func (l *Locker) Lock(ctx context.Context, n int) ([]Locked, error) {
	if n < 1 {
		return nil, nil
	}
	token, repeated := l.unanswered, l.unanswered != ""
	if token == "" {
		fresh, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make a lock token: %w", err)
		}
		token = fresh.String()
	}
	var taken []candidate
	var after cursor
	l.unanswered = token
	err := l.q.db.Tx(ctx, func(tx *schema.Tx) (err error) {
		after = maps.Clone(l.after)
		if taken = nil; repeated {
			// the commit before this one may have succeeded: a claim is what carries the token
			if taken, err = l.carrying(ctx, tx, token); err != nil || len(taken) > 0 {
				return err
			}
		}
		repeated = true
		taken, err = l.lock(ctx, tx, token, n, after)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lock jobs of %s: %w", l.q.Name, err)
	}
	l.unanswered, l.after = "", after
	return claimed(taken, token), nil
}

func claimed(taken []candidate, token string) []Locked {
	locked := make([]Locked, len(taken))
	for i, c := range taken {
		locked[i] = Locked{ID: c.ID, Type: c.Type, Token: token}
	}
	return locked
}

// More says that the last Lock may have left jobs that another could take at once: it ended before the end of the line.
func (l *Locker) More() bool { return l.more }

// Wait is how long the queue's rate lets no job start, if the last Lock found that; else 0.
func (l *Locker) Wait() time.Duration { return l.wait }

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
	if err := l.q.Release(ctx, claimed(taken, l.unanswered)); err != nil {
		return err
	}
	l.unanswered = ""
	return nil
}

func (l *Locker) lock(ctx context.Context, tx *schema.Tx, token string, n int, after cursor) ([]candidate, error) {
	l.more, l.wait = false, 0
	var paused bool
	if err := tx.GetContext(ctx, &paused, "SELECT "+l.q.paused(), l.q.Name); err != nil || paused {
		return nil, err
	}
	room, err := l.q.room(ctx, tx)
	if err != nil {
		return nil, err
	}
	if l.q.Rate.Starts > 0 {
		lately, err := l.q.startsLately(ctx, tx, "")
		if err != nil {
			return nil, err
		}
		left, wait := l.q.Rate.Left(lately, tx.Now)
		if n = min(n, left); n == 0 {
			l.wait = wait
			return nil, nil
		}
	}
	if l.q.ThrottleGroups != nil {
		released, err := l.release(ctx, tx, room, n)
		if err != nil {
			return nil, err
		}
		if released > 0 {
			clear(after)
		}
	}
	taken, held, err := l.find(ctx, tx, room, n, after)
	if err != nil {
		return nil, err
	}
	if l.q.ThrottleGroups != nil && !room.surveyed && !room.ended {
		l.more = true // in the groups that come next
	}
	if err := l.q.hold(ctx, tx, held); err != nil {
		return nil, err
	}
	return taken, l.q.take(ctx, tx, l.worker, token, taken)
}

// take makes due jobs a worker's.
func (q *Queue) take(ctx context.Context, tx *schema.Tx, worker, token string, jobs []candidate) error {
	if len(jobs) == 0 {
		return nil
	}
	group, args := q.setGroup(jobs)
	args = append([]any{worker, token}, args...)
	for _, c := range jobs {
		args = append(args, c.ID)
	}
	res, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET line = 'locked', stopping = 0, worker_id = ?, lock_token = ?"+group+
		" WHERE line = 'due' AND id IN "+schema.In(len(jobs)), args...)
	if err != nil {
		return err
	}
	return mustHit(res, len(jobs))
}

// carrying reads the jobs that carry a token.
func (l *Locker) carrying(ctx context.Context, tx *schema.Tx, token string) (found []candidate, err error) {
	err = tx.SelectContext(ctx, &found, "SELECT id, job_type, priority, scheduled_run_time FROM "+l.q.table+" "+
		l.q.index("pick")+" WHERE line = 'locked' AND lock_token = ? ORDER BY "+l.q.order.by(), token)
	return found, err
}

// backInLine is the part of an update that gives back what was locked and not started: by LockNow perhaps before its time.
// It takes the time of now twice.
const backInLine = "line = CASE WHEN scheduled_run_time > ? THEN 'later' ELSE 'due' END," +
	" wake_time = CASE WHEN scheduled_run_time > ? THEN scheduled_run_time ELSE NULL END"

// Release gives jobs that were locked and not started back to the line, at no cost in attempts. Those that are no longer
// under their lock stay as they are. It may be repeated.
func (q *Queue) Release(ctx context.Context, jobs []Locked) error {
	for _, c := range claims(jobs) {
		err := q.db.Tx(ctx, func(tx *schema.Tx) error {
			now := schema.At(tx.Now)
			_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET "+backInLine+", worker_id = 'NONE', lock_token = 'NONE'"+
				" WHERE line = 'locked' AND state IN ('initial', 'retry') AND lock_token = ? AND id IN "+schema.In(len(c.ids)),
				append([]any{now, now, c.token}, c.ids...)...)
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

// claim is what one lock has taken: jobs under the same token.
type claim struct {
	token  string
	urgent bool
	ids    []any
}

func claims(jobs []Locked) (list []*claim) {
	byToken := map[string]*claim{}
	for _, j := range jobs {
		c := byToken[j.Token]
		if c == nil {
			c = &claim{token: j.Token, urgent: j.Urgent}
			byToken[j.Token], list = c, append(list, c)
		}
		c.ids = append(c.ids, j.ID)
	}
	return list
}
