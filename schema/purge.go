package schema

import (
	"context"
	"strings"
	"time"
)

const (
	// PurgeBatch is how many rows one transaction of a purge deletes.
	PurgeBatch = 500
	// breath is the time between two of them. On SQLite those who wait for the file look again only now and then; without
	// a pause they would hardly ever find it free.
	breath = 5 * time.Millisecond
)

// Breathe lets others have the database for a moment, between two transactions of a purge. The error is that of ctx.
func Breathe(ctx context.Context) error {
	if !sleep(ctx, breath) {
		return ctx.Err()
	}
	return nil
}

// DeleteByID deletes those of the rows with these ids that meet a condition on the table t, and gives their number. It
// touches no other rows.
func (tx *Tx) DeleteByID(ctx context.Context, d Dialect, table string, ids []any, condition string, args ...any) (deleted int64, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	statement := strings.NewReplacer("{table}", table, "{ids}", d.listed(len(ids)), "{condition}", condition).Replace(d.deleteByID)
	res, err := tx.ExecContext(ctx, statement, append(ids[:len(ids):len(ids)], args...)...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// listed are n parameters, as deleteByID wants them.
func (d Dialect) listed(n int) string { return "?" + strings.Repeat(d.idSeparator+"?", n-1) }
