package engine

import (
	"context"
	"strings"
	"time"
)

const (
	// PurgeBatch is how many rows one purge transaction deletes.
	PurgeBatch = 500
	// breath is the minimum pause between two purge transactions. SQLite's waiters poll only now and then, and without a
	// pause they would hardly ever find the file free.
	breath = 5 * time.Millisecond
	// breaths is the pause in multiples of the transaction's duration, while jobs run. So a purge then uses at most a fifth of a
	// processor, and less on a busy database.
	breaths = 4
	// longestBreath bounds the pause, because the transaction may have waited for others.
	longestBreath = time.Second
)

// Breathe pauses between two purge transactions, so that others can use the database: longer while workers, a table of them, have
// slots. The last transaction began at began. It fails only with the error of ctx.
func (db *DB) Breathe(ctx context.Context, workers string, began time.Time) error {
	took, works := time.Since(began), true
	if db.GetContext(ctx, &works, "SELECT EXISTS (SELECT 1 FROM "+workers+" "+db.Index(workers, "state")+" WHERE state = 'working' AND slots > 0)") == nil && !works {
		took /= breaths * 2
	}
	if !sleep(ctx, min(max(breath, breaths*took), longestBreath)) {
		return ctx.Err()
	}
	return nil
}

// DeleteByID is the statement that deletes those of n >= 1 rows that meet a condition on the table t. Its parameters are the
// ids, then the condition's. It touches no other rows.
func (d Dialect) DeleteByID(table string, n int, condition string) string {
	ids := "?" + strings.Repeat(d.idSeparator+"?", n-1)
	return strings.NewReplacer("{table}", table, "{ids}", ids, "{condition}", condition).Replace(d.deleteByID)
}

// DeleteEach deletes rows one by one, by a statement of DeleteByID for one, in a transaction in which a foreign key or a trigger has kept some: see
// Tx.Kept. It calls kept with those. If a single deletion doesn't fail, but the commit, it keeps all.
func (tx *Tx) DeleteEach(ctx context.Context, statement string, ids []any, kept func(id any, why error)) (deleted int64, err error) {
	if err := tx.Flush(ctx); err != nil {
		return 0, err
	}
	for _, id := range ids {
		n := int64(0)
		if err = tx.Kept[0]; len(tx.Kept) == 1 {
			n, err = tx.Affected(ctx, statement, id)
		}
		if IsKept(err) {
			kept(id, err)
		} else if err != nil {
			return 0, err
		}
		deleted += n
	}
	return deleted, nil
}

// Affected executes a statement and returns how many rows it has changed.
func (tx *Tx) Affected(ctx context.Context, statement string, args ...any) (int64, error) {
	res, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// DeleteRows deletes those of one or more rows by id that meet a condition on the table t, in its own transaction. kept is called
// with those that a foreign key or a trigger keeps; if it is nil, one of them is an error.
func (db *DB) DeleteRows(ctx context.Context, table string, ids []any, condition string, kept func(id any, why error)) (deleted int64, err error) {
	why, apart := map[any]error{}, false
	err = db.Tx(ctx, func(tx *Tx) (err error) {
		deleted = 0
		if clear(why); len(tx.Kept) == 0 || kept == nil {
			deleted, err = tx.Affected(ctx, db.DeleteByID(table, len(ids), condition), ids...)
			return err
		}
		if apart = len(tx.Kept) > 1 && len(ids) > 1; !apart {
			deleted, err = tx.DeleteEach(ctx, db.DeleteByID(table, 1, condition), ids, func(id any, err error) { why[id] = err })
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	for id, err := range why {
		kept(id, err)
	}
	for i := 0; apart && i < len(ids); i++ {
		n, err := db.DeleteRows(ctx, table, ids[i:i+1], condition, kept)
		if deleted += n; err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}
