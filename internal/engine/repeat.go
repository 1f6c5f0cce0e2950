package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Tx runs f in a transaction and commits. What the engine refuses because of another transaction (a deadlock, a
// lock not granted in time, a busy file) is rolled back and repeated as a whole, so f must start from nothing each time.
// A lost connection is repeated too, even while committing: f must recognise what an earlier run of it may have done, which
// MayBeDone is for.
func (db *DB) Tx(ctx context.Context, f func(*Tx) error) error {
	return db.repeat(ctx, Retryable, db.beginClock, f)
}

func (db *DB) beginClock(tx *Tx) []Query { return []Query{Values(db.ClockOf(tx))} }

// TxUnclocked is Tx for a transaction that may do without the time: Now is zero there until SetClock. Stamp is for that.
func (db *DB) TxUnclocked(ctx context.Context, f func(*Tx) error) error {
	return db.repeat(ctx, Retryable, nil, f)
}

// TxInPassing is TxUnclocked for a transaction that waits for no other's rows, and isn't repeated, because the next poll repeats it:
// Tx.SkipLocked passes over rows that another holds. On a Galera cluster it does so only after it has met one, and fails first.
func (db *DB) TxInPassing(ctx context.Context, f func(*Tx) error) error {
	return db.repeat(ctx, func(error) bool { return false }, nil, func(tx *Tx) error {
		if db.waitsFirst && tx.SkipLocked == db.ForUpdate {
			tx.SkipLocked += " NOWAIT"
		}
		return f(tx)
	})
}

// patience is how long a transaction is repeated. The caller has an answer within half a minute, because the last try
// may wait 3 s for a row.
const patience = 22 * time.Second

// TxInParts is Tx for a transaction about many rows, which its caller does again in parts if another transaction holds a lock
// for too long: then it isn't repeated, and IsLockTimeout tells. It begins with queries that cost no round trip of their own:
// first gives them, each time again, and one of them reads ClockOf; nil is that alone.
func (db *DB) TxInParts(ctx context.Context, first func(*Tx) []Query, f func(*Tx) error) error {
	again := func(err error) bool { return Retryable(err) && !IsLockTimeout(err) }
	if first == nil {
		first = db.beginClock
	}
	return db.repeat(ctx, again, first, f)
}

// repeat runs f in a transaction until it is committed, or ends in an error after which it isn't to be done again. It is done
// again as a whole: after a deadlock, and where a cluster refuses a commit because of another node's, nothing of it is
// left.
func (db *DB) repeat(ctx context.Context, again func(error) bool, first func(*Tx) []Query, f func(*Tx) error) error {
	mayBeDone, waits := false, db.waitsFirst
	passes := func(err error) bool {
		if waits && IsLockTimeout(err) {
			waits = false
			return true
		}
		return again(err)
	}
	return Patiently(ctx, passes, func() error {
		skipLocked := db.skipLocked
		if waits {
			skipLocked = db.ForUpdate
		}
		err := db.once(ctx, mayBeDone, skipLocked, first, f)
		mayBeDone = mayBeDone || errors.Is(err, errUnanswered)
		return err
	})
}

// Patiently does something until it succeeds, or its error is none that passes, or there is no patience left. It asks for
// SQLite's file as often at last as at first: otherwise, one that has waited long would always be later than new ones.
func Patiently(ctx context.Context, passes func(error) bool, do func() error) error {
	began, pause := time.Now(), 2*time.Millisecond
	for {
		err := do()
		hear(ctx, err)
		if err == nil || !passes(err) || time.Since(began) > patience {
			return err
		}
		if !sleep(ctx, jitter(pause)) {
			return err
		}
		if !isBusy(err) {
			pause = min(2*pause, 500*time.Millisecond)
		}
	}
}

type hearKey struct{}

// Hearing makes a context in which f gets each error of a transaction after which it may be repeated, as it happens: who waits
// for a transaction that is repeated, and has no time left, can tell what for. Several may call it at once.
func Hearing(ctx context.Context, f func(error)) context.Context {
	return context.WithValue(ctx, hearKey{}, f)
}

func hear(ctx context.Context, err error) {
	if f, ok := ctx.Value(hearKey{}).(func(error)); ok && err != nil && Retryable(err) {
		f(err)
	}
}

// inLineFor is how long a writer waits for the token before it tries without.
const inLineFor = time.Second

// errUnanswered is the error of a COMMIT whose outcome is unknown.
var errUnanswered = errors.New("the commit was not answered")

func (db *DB) once(ctx context.Context, mayBeDone bool, skipLocked string, first func(*Tx) []Query, f func(*Tx) error) error {
	if db.Writers == 1 {
		select {
		case db.writing <- struct{}{}:
			defer func() { <-db.writing }()
		case <-time.After(inLineFor): // its holder may run long, or wait for this one: SQLite decides, and returns an error
		case <-ctx.Done():
			return fmt.Errorf("begin: %w", ctx.Err())
		}
	}
	conn, err := db.mapped.Connx(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = conn.Close() }() // gives it back to the pool
	tx := &Tx{MayBeDone: mayBeDone, SkipLocked: skipLocked, on: conn, now: db.NowSQL, keeps: db.Engine == SQLite.Engine && !db.borrowed, together: db.together}
	if tx.together {
		buffer := buffers.Get().(*[]byte)
		tx.written = (*buffer)[:0]
		defer func() {
			if *buffer = tx.written; cap(*buffer) <= bufferMax {
				buffers.Put(buffer)
			}
		}()
	}
	// also when it says that it could not begin: where ctx ends meanwhile, it may have begun anyway, and the connection
	// must not go back to the pool like that, nor when f panics
	committed := false
	defer func() {
		if !committed {
			tx.written = tx.written[:0]
			// a second error here says nothing that the first did not
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	if err = tx.Write(ctx, db.begin); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if first != nil {
		if err = tx.Read(ctx, first(tx)...); err != nil {
			return err
		}
	}
	if err = f(tx); err != nil {
		return err
	}
	commit := ctx
	if db.Engine == SQLite.Engine { // it commits at once; where ctx ended meanwhile, its driver would deny what has happened
		commit = context.WithoutCancel(ctx)
	}
	if _, err = tx.ExecContext(commit, "COMMIT"); err != nil {
		if IsAnswer(err) {
			return fmt.Errorf("commit: %w", err)
		}
		return fmt.Errorf("commit: %w: %w", errUnanswered, err)
	}
	committed = true
	return nil
}

// jitter spreads d over its second half, so that those who failed together don't come back together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep waits for d; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
