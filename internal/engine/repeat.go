package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Tx runs f in a transaction and commits. If another transaction interferes (a deadlock, a lock timeout, a busy file), Tx
// rolls back and repeats the whole transaction, so f must start afresh each time. It also repeats after a lost connection,
// even during the commit: f must then recognise what an earlier run did, with the help of MayBeDone.
func (db *DB) Tx(ctx context.Context, f func(*Tx) error) error {
	return db.repeat(ctx, Retryable, db.beginClock, f)
}

func (db *DB) beginClock(tx *Tx) []Query { return []Query{Values(db.ClockOf(tx))} }

// TxUnclocked is Tx without reading the time: Now is zero until SetClock. Stamp handles that.
func (db *DB) TxUnclocked(ctx context.Context, f func(*Tx) error) error {
	return db.repeat(ctx, Retryable, nil, f)
}

const asideWait = time.Second

// TxAside is TxUnclocked for a caller that may have a transaction of its own on the pool it lent, which can't end while it waits.
// It then gives up when locks have been held for a second, in which no transaction of this DB ended. After the context's end the
// error is the context's.
func (db *DB) TxAside(ctx context.Context, f func(*Tx) error) error {
	began, ended := time.Now(), db.ended.Load()
	err := db.repeat(ctx, func(err error) bool {
		if now := db.ended.Load(); now != ended {
			began, ended = time.Now(), now
		}
		held := db.lender != nil && IsHeld(err) && time.Since(began) >= asideWait
		return Retryable(err) && !held
	}, nil, f)
	if over := ctx.Err(); err != nil && over != nil && !errors.Is(err, over) {
		return fmt.Errorf("%w: %w", over, err)
	}
	return err
}

// TxInPassing is TxUnclocked without waits and repetitions, for work that will be asked for again: Tx.SkipLocked skips locked
// rows. On a Galera cluster it fails at the first locked row, and skips only when repeated.
func (db *DB) TxInPassing(ctx context.Context, f func(*Tx) error) error {
	return db.repeat(ctx, func(error) bool { return false }, nil, func(tx *Tx) error {
		if db.waitsFirst && tx.SkipLocked == db.ForUpdate {
			tx.SkipLocked += " NOWAIT"
		}
		return f(tx)
	})
}

// patience is how long a transaction is repeated. Its caller gets an answer within half a minute, because the last try may
// wait 3 s for a row.
const patience = 22 * time.Second

// TxInParts is Tx for a transaction on many rows that the caller redoes in parts after a lock timeout: it isn't repeated
// then, and IsLockTimeout tells. It begins with queries that cost no round trip of their own. first returns them for
// each try; one must read ClockOf. If first is nil, ClockOf is the only one.
func (db *DB) TxInParts(ctx context.Context, first func(*Tx) []Query, f func(*Tx) error) error {
	again := func(err error) bool { return Retryable(err) && !IsLockTimeout(err) }
	if first == nil {
		first = db.beginClock
	}
	return db.repeat(ctx, again, first, f)
}

// repeat runs f in a transaction until it commits or fails with an error that forbids another try. It repeats the whole
// transaction, because a deadlock, or a cluster that refuses a commit for another node's, undoes all of it.
func (db *DB) repeat(ctx context.Context, again func(error) bool, first func(*Tx) []Query, f func(*Tx) error) error {
	mayBeDone, waits := false, db.waitsFirst
	var kept []error
	passes := func(err error) bool {
		if len(kept) < 2 && IsKept(err) {
			kept = append(kept, err)
			return true
		}
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
		err := db.once(ctx, mayBeDone, skipLocked, first, func(tx *Tx) error {
			tx.Kept = kept
			return f(tx)
		})
		mayBeDone = mayBeDone || errors.Is(err, errUnanswered)
		return err
	})
}

// Patiently repeats do until it succeeds, its error isn't temporary, or patience runs out. It polls SQLite's busy file at a
// constant rate: with a growing pause, newcomers would always overtake a long waiter.
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

// Hearing returns a context in which f gets each repeatable error of a transaction as it happens. A caller that runs out of
// time can then say what it waited for. f may be called concurrently.
func Hearing(ctx context.Context, f func(error)) context.Context {
	return context.WithValue(ctx, hearKey{}, f)
}

func hear(ctx context.Context, err error) {
	if f, ok := ctx.Value(hearKey{}).(func(error)); ok && err != nil && Retryable(err) {
		f(err)
	}
}

// inLineFor is how long a writer waits for the token before it tries without it.
const inLineFor = time.Second

// errUnanswered means that a COMMIT got no reply, so it may have happened.
var errUnanswered = errors.New("the commit was not answered")

func (db *DB) once(ctx context.Context, mayBeDone bool, skipLocked string, first func(*Tx) []Query, f func(*Tx) error) error {
	if db.Writers == 1 {
		select {
		case db.writing <- struct{}{}:
			defer func() { <-db.writing }()
		case <-time.After(inLineFor): // its holder may run long, or wait for this writer: SQLite decides, and returns an error
		case <-ctx.Done():
			return fmt.Errorf("begin: %w", ctx.Err())
		}
	}
	conn, err := db.Connx(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = conn.Close() }() // returns it to the pool
	tx := &Tx{MayBeDone: mayBeDone, SkipLocked: skipLocked, on: conn, now: db.NowSQL, keeps: db.Engine == SQLite.Engine && db.lender == nil, together: db.together, packet: db.Packet}
	if tx.together {
		buffer := buffers.Get().(*[]byte)
		tx.written = (*buffer)[:0]
		defer func() {
			if *buffer = tx.written; cap(*buffer) <= bufferMax {
				buffers.Put(buffer)
			}
		}()
	}
	// Also if BEGIN fails: when ctx ends, the transaction may have begun nevertheless. The pool must not get the connection
	// back inside a transaction, not even if f panics.
	committed := false
	defer func() {
		if !committed {
			tx.written = tx.written[:0]
			// a second error here adds nothing to the first
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
	if db.Engine == SQLite.Engine { // it commits at once; if ctx ended, its driver would deny a commit that happened
		commit = context.WithoutCancel(ctx)
	}
	if _, err = tx.ExecContext(commit, "COMMIT"); err != nil {
		if IsAnswer(err) {
			return fmt.Errorf("commit: %w", err)
		}
		return fmt.Errorf("commit: %w: %w", errUnanswered, err)
	}
	committed = true
	db.ended.Add(1)
	return nil
}

// jitter returns a duration between d/2 and d, so that callers that failed together don't retry together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep waits for d. It returns false if ctx ends first.
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
