package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// candidate is an entry of the line.
type candidate struct {
	ID               int64       `db:"id"`
	Priority         int         `db:"priority"`
	ScheduledRunTime schema.Time `db:"scheduled_run_time"`
	ThrottleFactor   int         `db:"throttle_factor"`
	Group            string      `db:"throttle_group"`
	Type             string      `db:"job_type"`
	Part             string      `db:"part"`
}

// stretch is a range of the line's index: each part and each type has one of its own.
type stretch struct{ part, jobType string }

// cursor is the last entry seen in each stretch.
type cursor map[stretch]candidate

// walkMax is how many entries one lock looks at, at most, on its way to jobs whose groups have room.
const walkMax = 5000

// find walks the line until it has n jobs that there is room for, and gives those too whose groups are full.
func (l *Locker) find(ctx context.Context, tx *schema.Tx, room *room, n int, after cursor) (taken, held []candidate, err error) {
	// with a limit the first may wait in the line and one behind it be taken: what waits must not be passed over
	if !l.q.db.LeavesDead || l.q.ThrottleLimit > 0 || tx.Now.Sub(l.headAt) >= headEvery {
		l.headAt = tx.Now
		clear(after)
	}
	atHead := len(after) == 0
	taken, held, err = l.walk(ctx, tx, room, n, after)
	if err != nil || atHead {
		return taken, held, err
	}
	// at the end of the line: what came in behind us meanwhile is at the head
	if len(taken)+len(held) > 0 {
		l.more = true // for the next lock, which begins there
		return taken, held, nil
	}
	l.headAt = tx.Now
	clear(after)
	return l.walk(ctx, tx, room, n, after)
}

// walk goes along the line from where after is. Without limits one step is all there is to it; with groups it may have to
// pass many whose groups are full.
func (l *Locker) walk(ctx context.Context, tx *schema.Tx, room *room, n int, after cursor) (taken, held []candidate, err error) {
	if tx.Now.Sub(l.freeAt) >= headEvery {
		if err := l.lookForFree(ctx, tx); err != nil {
			return nil, nil, err
		}
	}
	for walked, size := 0, n; ; size = max(n, 250) {
		found, err := l.step(ctx, tx, l.parts(room), size, after)
		if err != nil {
			return nil, nil, err
		}
		if err := l.q.classify(ctx, tx, found); err != nil {
			return nil, nil, err
		}
		if err := l.closeHeld(ctx, tx, room, found); err != nil {
			return nil, nil, err
		}
		for _, c := range found {
			after[stretch{c.Part, c.Type}] = c
			switch room.fit(c) {
			case job.Fits:
				taken = append(taken, c)
			case job.GroupFull:
				held = append(held, c)
			}
			if len(taken) == n {
				l.more = true
				return taken, held, nil
			}
		}
		walked += len(found)
		switch {
		case walked >= walkMax:
			l.more = true
			return taken, held, nil
		case len(found) == size && !room.full, len(found) == size && l.free:
			continue
		case !l.free && !l.freeAt.Equal(tx.Now):
			if err := l.lookForFree(ctx, tx); err != nil || !l.free {
				return taken, held, err
			}
		default:
			return taken, held, nil
		}
	}
}

// parts are those of the line that are worth walking.
func (l *Locker) parts(room *room) (parts []string) {
	if !room.full {
		parts = append(parts, partMain)
	}
	if l.free {
		parts = append(parts, partFree)
	}
	return parts
}

// lookForFree finds out whether there are jobs that weigh nothing: mostly there are none, and to walk their part of the
// line each time would cost a query for each type.
func (l *Locker) lookForFree(ctx context.Context, tx *schema.Tx) error {
	l.freeAt = tx.Now
	query := "SELECT EXISTS (SELECT 1 FROM " + l.q.table + " " + l.q.index("pick") + " WHERE line = 'due' AND part = 'free')"
	if err := tx.GetContext(ctx, &l.free, query); err != nil {
		return fmt.Errorf("look for jobs without weight: %w", err)
	}
	return nil
}

// step reads the next n entries: the next n of each stretch behind after, which it merges.
func (l *Locker) step(ctx context.Context, tx *schema.Tx, parts []string, n int, after cursor) ([]candidate, error) {
	var found []candidate
	columns := "SELECT id, job_type, part, priority, scheduled_run_time" // all in MySQL's index
	if l.q.limited() {
		columns += ", throttle_factor, throttle_group"
	}
	for _, part := range parts {
		for _, name := range l.types {
			query := columns + " FROM " + l.q.table + " " + l.q.index(l.q.order.index) + " WHERE line = 'due' AND part = ? AND job_type = ?"
			args := []any{part, name}
			if last, ok := after[stretch{part, name}]; ok {
				beyond, values := l.q.order.after(last)
				query, args = query+" AND "+beyond, append(args, values...)
			}
			query += " ORDER BY " + l.q.order.by() + " LIMIT ? " + l.q.db.SkipLocked
			var rows []candidate
			if err := tx.SelectContext(ctx, &rows, query, append(args, n)...); err != nil {
				return nil, err
			}
			found = append(found, rows...)
		}
	}
	if len(parts)*len(l.types) > 1 {
		slices.SortFunc(found, l.q.order.compare)
	}
	return found[:min(n, len(found))], nil
}
