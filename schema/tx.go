package schema

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
)

// Tx is a transaction with the time of the database at its beginning (or since SetClock), which is the time of all that
// happens in it.
//
// A statement whose result nobody reads is for Write: it goes to the server together with the next one that is waited for,
// or with the commit, so that a transaction costs few round trips. Statements are executed in the order of their calls.
type Tx struct {
	Now time.Time
	// MayBeDone says that an earlier try of the transaction may have been committed: its COMMIT was not answered.
	MayBeDone bool
	// SkipLocked is the clause that locks the rows that are read, passing over those that another transaction holds: on a
	// Galera cluster only once the transaction has waited for such a row in vain, and is repeated.
	SkipLocked string
	on         executor
	// own says that it is hipq's own connection, which keeps statements prepared.
	own bool
	// now is the clock as an expression.
	now string
	// together says that the server takes several statements at once.
	together bool
	// idStep is how far the ids of one multi-row insert lie apart on the connection; 0 as long as nobody has asked.
	idStep int64
	// written are the statements that wait to be sent.
	written []string
	args    []any
	size    int
}

// executor is what a transaction runs on: a connection of hipq's own, or the transaction of an application.
type executor interface {
	sqlx.QueryerContext
	sqlx.ExecerContext
}

// writtenMax is how many bytes of statements and their parameters wait to be sent, at most: well under the smallest
// max_allowed_packet that a server is likely to have.
const writtenMax = 4 << 20

// Tx runs f in a transaction and commits. What the engine refuses for the sake of another transaction (a deadlock, a
// lock not granted in time, a busy file) is rolled back and repeated as a whole, so f must start from nothing each time.
// A lost connection is repeated too, even while committing: f must recognise what an earlier run of it may have done, which
// MayBeDone is for.
func (db *DB) Tx(ctx context.Context, f func(*Tx) error) error {
	return db.repeat(ctx, Retryable, func(tx *Tx) []Query { return []Query{db.clock(tx)} }, f)
}

// TxUnclocked is Tx for a transaction that may do without the time, where to read it costs a round trip: Now is zero there
// until SetClock. Stamp is for that.
func (db *DB) TxUnclocked(ctx context.Context, f func(*Tx) error) error {
	return db.repeat(ctx, Retryable, func(tx *Tx) []Query {
		if db.together {
			return nil
		}
		return []Query{db.clock(tx)}
	}, f)
}

// patience is how long a transaction is repeated. Whoever waits for it has an answer within half a minute, for the last try
// may wait 3 s for a row.
const patience = 22 * time.Second

// TxInParts is Tx for a transaction about many rows, which its caller does again in parts if another transaction holds a lock
// for too long: then it isn't repeated, and IsLockTimeout tells. It begins with queries that cost no round trip of their own:
// first gives them, each time anew; nil is none.
func (db *DB) TxInParts(ctx context.Context, first func(*Tx) []Query, f func(*Tx) error) error {
	again := func(err error) bool { return Retryable(err) && !IsLockTimeout(err) }
	return db.repeat(ctx, again, func(tx *Tx) []Query {
		queries := []Query{db.clock(tx)}
		if first != nil {
			queries = append(queries, first(tx)...)
		}
		return queries
	}, f)
}

// repeat runs f in a transaction until it is committed, or ends in an error after which it isn't to be done again. It is done
// again as a whole: after a deadlock, and where a cluster refuses a commit for the sake of another node's, nothing of it is
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
	return patiently(ctx, passes, func() error {
		skipLocked := db.skipLocked
		if waits {
			skipLocked = db.ForUpdate
		}
		err := db.once(ctx, mayBeDone, skipLocked, first, f)
		mayBeDone = mayBeDone || errors.Is(err, errUnanswered)
		return err
	})
}

// patiently does something until it succeeds, or its error is none that passes, or there is no patience left. It asks for
// SQLite's file as often at last as at first: who has waited long would come too late each time to those who ask anew.
func patiently(ctx context.Context, passes func(error) bool, do func() error) error {
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

// IsHeld says whether another transaction holds a row, where the engine locks rows and passes over those that are locked. That
// there is no such row any more looks alike. It locks the row for a moment itself. Who may not, is told nothing.
func (db *DB) IsHeld(ctx context.Context, table string, id int64) (bool, error) {
	if db.skipLocked == "" || db.waitsFirst {
		return false, nil
	}
	held := false
	err := db.TxUnclocked(ctx, func(tx *Tx) error {
		var found []int64
		err := tx.SelectContext(ctx, &found, "SELECT id FROM "+table+" "+db.ByID+" WHERE id = ? "+db.skipLocked, id)
		held = err == nil && len(found) == 0
		return err
	})
	if kind, _ := Diagnose(err); kind == Misconfigured || isReadOnly(err) {
		return false, nil
	}
	return held, err
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

// errUnanswered is the error of a COMMIT of which nobody knows whether it happened.
var errUnanswered = errors.New("the commit was not answered")

func (db *DB) once(ctx context.Context, mayBeDone bool, skipLocked string, first func(*Tx) []Query, f func(*Tx) error) error {
	conn, err := db.Connx(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = conn.Close() }() // gives it back to the pool
	tx := &Tx{MayBeDone: mayBeDone, SkipLocked: skipLocked, on: conn, own: true, now: db.Now, together: db.together}
	// also when it says that it could not begin: where ctx ends meanwhile, it may have begun all the same, and the connection
	// must not go back to the pool like that, nor when f panics
	committed := false
	defer func() {
		if !committed {
			tx.written = nil
			// a second error here says nothing that the first did not
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	if err = tx.Write(ctx, db.begin); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if queries := first(tx); len(queries) > 0 {
		if err = tx.Read(ctx, queries...); err != nil {
			return err
		}
	}
	if err = f(tx); err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, "COMMIT"); err != nil {
		if IsAnswer(err) {
			return fmt.Errorf("commit: %w", err)
		}
		return fmt.Errorf("commit: %w: %w", errUnanswered, err)
	}
	committed = true
	return nil
}

// Join makes the application's own transaction one that hipq can work in. Committing, and repeating, stay with the
// application.
func (db *DB) Join(ctx context.Context, tx *sql.Tx) (*Tx, error) {
	joined := &Tx{SkipLocked: db.skipLocked, on: &sqlx.Tx{Tx: tx, Mapper: db.Mapper}, now: db.Now}
	if err := db.SetClock(ctx, joined); err != nil {
		return nil, err
	}
	return joined, nil
}

// SetClock makes the time of a transaction that of now, by the database's clock: for one that had to wait for others before
// anything happened in it.
func (db *DB) SetClock(ctx context.Context, tx *Tx) error {
	if err := tx.Read(ctx, db.clock(tx)); err != nil {
		return fmt.Errorf("read the database's clock: %w", err)
	}
	return nil
}

// Stamp is the transaction's time in a statement: an expression, and its parameters. In one without a clock it is that of
// the statement.
func (tx *Tx) Stamp() (expression string, args []any) {
	if tx.Now.IsZero() {
		return tx.now, nil
	}
	return "?", []any{Text(tx.Now)}
}

func (db *DB) clock(tx *Tx) Query {
	return Query{SQL: db.readClock(), Scan: func(rows *sql.Rows) error {
		for rows.Next() {
			var now string
			err := rows.Scan(&now)
			if err == nil {
				tx.Now, err = ParseTime(now)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}}
}

// Query is a query and what reads its rows: all of them, by Next and Scan.
type Query struct {
	SQL  string
	Args []any
	Scan func(*sql.Rows) error
}

// row reads a row, if there is one.
func row(into ...any) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return err
			}
		}
		return nil
	}
}

// Read runs queries, one after the other: in one round trip where the server takes several statements at once.
func (tx *Tx) Read(ctx context.Context, queries ...Query) error {
	if !tx.together {
		for _, q := range queries {
			rows, err := tx.QueryContext(ctx, q.SQL, q.Args...)
			if err == nil {
				err = scan(rows, q)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	texts, args := make([]string, len(queries)), []any(nil)
	for i, q := range queries {
		texts[i], args = q.SQL, append(args, q.Args...)
	}
	rows, err := tx.QueryContext(ctx, strings.Join(texts, ";"), args...)
	if err != nil {
		return err
	}
	return scan(rows, queries...)
}

// scan reads the rows of queries, and closes them.
func scan(rows *sql.Rows, queries ...Query) error {
	defer func() { _ = rows.Close() }()
	for i, q := range queries {
		if i > 0 && !rows.NextResultSet() {
			return cmp.Or(rows.Err(), io.ErrUnexpectedEOF)
		}
		if err := q.Scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Write executes a statement whose result nobody reads, with the next statement or the commit at the latest. An error may
// come from there.
func (tx *Tx) Write(ctx context.Context, statement string, args ...any) error {
	if !tx.together {
		_, err := tx.on.ExecContext(ctx, statement, args...)
		return err
	}
	size := len(statement)
	for _, a := range args {
		if text, ok := a.(string); ok {
			size += len(text)
		}
	}
	if tx.size+size > writtenMax && len(tx.written) > 0 {
		if err := tx.Flush(ctx); err != nil {
			return err
		}
	}
	tx.written, tx.args, tx.size = append(tx.written, statement), append(tx.args, args...), tx.size+size
	return nil
}

// Flush sends what has been written, and waits for it: before something that others would have to wait for with it.
func (tx *Tx) Flush(ctx context.Context) error {
	if len(tx.written) == 0 {
		return nil
	}
	last := len(tx.written) - 1
	statement := tx.written[last]
	tx.written = tx.written[:last]
	statement, args := tx.with(statement, nil)
	_, err := tx.on.ExecContext(ctx, statement, args...)
	return err
}

// with puts what waits to be sent before a statement.
func (tx *Tx) with(statement string, args []any) (string, []any) {
	if len(tx.written) == 0 && len(tx.args) == 0 {
		return statement, args
	}
	statement = strings.Join(append(tx.written, statement), ";")
	args = append(tx.args, args...)
	tx.written, tx.args, tx.size = nil, nil, 0
	return statement, args
}

// ExecContext implements sqlx.ExecerContext.
func (tx *Tx) ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	statement, args = tx.with(statement, args)
	return tx.on.ExecContext(ctx, statement, args...)
}

// QueryContext implements sqlx.QueryerContext.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = tx.with(query, args)
	return tx.on.QueryContext(ctx, query, args...)
}

// QueryxContext implements sqlx.QueryerContext.
func (tx *Tx) QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error) {
	query, args = tx.with(query, args)
	return tx.on.QueryxContext(ctx, query, args...)
}

// QueryRowxContext implements sqlx.QueryerContext.
func (tx *Tx) QueryRowxContext(ctx context.Context, query string, args ...any) *sqlx.Row {
	query, args = tx.with(query, args)
	return tx.on.QueryRowxContext(ctx, query, args...)
}

// SelectContext reads all rows into a slice.
func (tx *Tx) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	return sqlx.SelectContext(ctx, tx, dest, query, args...)
}

// GetContext reads one row: sql.ErrNoRows if there is none.
func (tx *Tx) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	return sqlx.GetContext(ctx, tx, dest, query, args...)
}
