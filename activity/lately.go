package activity

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// failedText is how much of an error Failed reads: as much as its kind is told by.
const failedText = 4096

// Failed calls f with the entry of each job that failed for good since a time, the newest first; without its key and its output,
// and with the beginning of its error. No index has these entries: it looks at one after the other, for as long as within. back is
// zero if it has looked at all of that time, else the time to which it has come. It may be repeated.
func (l *Log) Failed(ctx context.Context, since time.Time, within time.Duration, f func(Entry)) (back time.Time, err error) {
	table, from := l.db.Activity(), engine.At(since)
	first, err := l.place(ctx, l.db.SQL.Index(table, "at")+" WHERE at >= ? ORDER BY "+table+".at", engine.At(since.Add(-lateBy)))
	if err == nil && first.ID > 0 {
		query := fmt.Sprintf("SELECT id, %s, queue, CAST(job_id AS SIGNED INTEGER) AS job_id, job_type, SUBSTR(error, 1, %d) AS error FROM %s %s"+
			" WHERE id >= ? AND id <= ? AND at >= ? AND kind = 'job' AND state = 'failed' ORDER BY id DESC", l.db.SQL.TimeColumns("at"), failedText, table, l.db.SQL.ByID)
		back, err = l.eachPageBack(ctx, since, time.Time{}, within, func(last int64) (more bool, err error) {
			return true, engine.Each(ctx, l.db.SQL, query, []any{max(first.ID, last-newestPage+1), last, from}, func(r row) error {
				r.Entry.At = r.At.Time
				f(r.Entry)
				return nil
			})
		})
	}
	return back, texts.Wrap(err, "find jobs that failed")
}

// Started says whether a job of a type was started since a time. If none was, it reads all that has happened since.
func (l *Log) Started(ctx context.Context, queue, jobType string, since time.Time) (some bool, err error) {
	table := l.db.Activity()
	query := "SELECT EXISTS (SELECT 1 FROM " + table + " " + l.db.SQL.Index(table, "at") +
		" WHERE at >= ? AND kind = 'job' AND state = 'starting' AND queue = ? AND job_type = ?)"
	err = l.db.SQL.GetContext(ctx, &some, query, engine.At(since), queue, jobType)
	return some, texts.Wrap(err, "find out whether jobs of %s/%s were started", queue, jobType)
}
