package activity

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// failedAmong is how many of the newest entries Failed looks at.
const failedAmong = 200_000

// Failed are the entries of the jobs that failed for good since a time, newest first, limit at most, among the newest 200,000.
func (l *Log) Failed(ctx context.Context, since time.Time, limit int) (entries []Entry, err error) {
	table := l.db.Activity()
	var first, last sql.NullInt64
	query := "SELECT MIN(id), MAX(id) FROM " + table + " " + l.db.Index(table, "at") + " WHERE at >= ?"
	err = l.db.QueryRowContext(ctx, query, engine.At(since)).Scan(&first, &last)
	if err == nil && first.Valid {
		query = "SELECT " + l.columns() + " FROM " + table + " " + l.db.ByID +
			" WHERE id >= ? AND at >= ? AND kind = 'job' AND state = 'failed' ORDER BY id DESC LIMIT ?"
		args := []any{max(first.Int64, last.Int64-failedAmong), engine.At(since), limit}
		err = engine.Each(ctx, l.db.DB, query, args, func(r row) error {
			r.Entry.At = r.At.Time
			entries = append(entries, r.Entry)
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("find jobs that failed: %w", err)
	}
	return entries, nil
}

// Started says whether a job of a type was started since a time. If none was, it reads all that has happened since.
func (l *Log) Started(ctx context.Context, queue, jobType string, since time.Time) (some bool, err error) {
	table := l.db.Activity()
	query := "SELECT EXISTS (SELECT 1 FROM " + table + " " + l.db.Index(table, "at") +
		" WHERE at >= ? AND kind = 'job' AND state = 'starting' AND queue = ? AND job_type = ?)"
	if err := l.db.GetContext(ctx, &some, query, engine.At(since), queue, jobType); err != nil {
		return false, fmt.Errorf("find out whether jobs of %s/%s were started: %w", queue, jobType, err)
	}
	return some, nil
}
