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
	// breaths is the pause in multiples of the transaction's duration. A purge thus uses at most a fifth of a processor, and
	// less on a busy database.
	breaths = 4
	// longestBreath bounds the pause, because the transaction may have waited for others.
	longestBreath = time.Second
)

// Breathe pauses between two purge transactions, so that others can use the database. The last one began at began. It fails
// only with the error of ctx.
func Breathe(ctx context.Context, began time.Time) error {
	if !sleep(ctx, min(max(breath, breaths*time.Since(began)), longestBreath)) {
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

// DeleteRows deletes those of one or more rows by id that meet a condition on the table t, in its own transaction.
func (db *DB) DeleteRows(ctx context.Context, table string, ids []any, condition string) (deleted int64, err error) {
	err = db.Tx(ctx, func(tx *Tx) error {
		res, err := tx.ExecContext(ctx, db.DeleteByID(table, len(ids), condition), ids...)
		if err == nil {
			deleted, err = res.RowsAffected()
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}
