package engine

import (
	"context"
	"strings"
	"time"
)

const (
	// PurgeBatch is how many rows one transaction of a purge deletes.
	PurgeBatch = 500
	// breath is the time between two of them, at least. On SQLite those who wait for the file look again only now and then;
	// without a pause they would hardly ever find it free.
	breath = 5 * time.Millisecond
	// breaths is how many times as long as a transaction took is the time behind it: so a purge takes a fifth of a processor at
	// most, and less the more others have to do. longestBreath bounds it, because a transaction may have waited for others.
	breaths       = 4
	longestBreath = time.Second
)

// Breathe lets others have the database for a while, between two transactions of a purge, of which the last began then. The
// error is that of ctx.
func Breathe(ctx context.Context, began time.Time) error {
	if !sleep(ctx, min(max(breath, breaths*time.Since(began)), longestBreath)) {
		return ctx.Err()
	}
	return nil
}

// DeleteByID is the statement that deletes those of n rows, 1 at least, that meet a condition on the table t. Its parameters
// are their ids, and then the condition's. It touches no other rows.
func (d Dialect) DeleteByID(table string, n int, condition string) string {
	ids := "?" + strings.Repeat(d.idSeparator+"?", n-1)
	return strings.NewReplacer("{table}", table, "{ids}", ids, "{condition}", condition).Replace(d.deleteByID)
}

// DeleteRows deletes those of the rows with these ids, 1 at least, that meet a condition on the table t, in a transaction of its own.
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
