package engine

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

// DeleteByID is the statement that deletes those of n rows, 1 at least, that meet a condition on the table t. Its parameters
// are their ids, and then the condition's. It touches no other rows.
func (d Dialect) DeleteByID(table string, n int, condition string) string {
	ids := "?" + strings.Repeat(d.idSeparator+"?", n-1)
	return strings.NewReplacer("{table}", table, "{ids}", ids, "{condition}", condition).Replace(d.deleteByID)
}
