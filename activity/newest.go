package activity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// newestPage is how many entries Newest reads at once.
const newestPage = 20_000

// lateBy is how far an entry's time may lie before those of lower ids: it is when its transaction began.
const lateBy = 10 * time.Second

// Newest returns the newest matching entries, oldest first, up to Limit. It is for interactive use of filters without
// an index: it scans back from the newest entry. After the time within it stops, and back has the ID and time of the last
// entry that it has scanned; to continue, search before that ID. back is empty if it has found enough or scanned the whole
// log. It may be repeated.
func (l *Log) Newest(ctx context.Context, by Filter, within time.Duration) (entries []Entry, back Entry, err error) {
	last, err := l.lastBefore(ctx, by.Until)
	if by.Before != 0 && err == nil {
		last, err = l.upTo(ctx, min(last.ID, by.Before-1))
	}
	if err == nil {
		last, err = l.eachPageBack(ctx, last, by.Since, within, func(last int64) (more bool, err error) {
			w := by.terms()
			w.And("id > ? AND id <= ?", last-newestPage, last)
			page, err := l.page(ctx, w, "id DESC", by.Limit-len(entries))
			entries = append(entries, page...)
			return len(entries) < by.Limit, err
		})
	}
	if err != nil {
		return nil, back, fmt.Errorf("find the newest activity: %w", err)
	}
	if slices.Reverse(entries); last.ID > 0 {
		back = Entry{ID: last.ID + 1, At: last.At.Time}
	}
	return entries, back, nil
}

// eachPageBack scans pages back from a place to those that may have entries since a time, and calls look with the id of
// each page's last entry. It stops if look wants no more, or after the time within, but not before the first page. back
// is the place that it would go on from, else empty. A zero time is no bound.
func (l *Log) eachPageBack(ctx context.Context, last place, since time.Time, within time.Duration,
	look func(last int64) (more bool, err error),
) (back place, err error) {
	began := time.Now()
	for looked, more := 0, true; err == nil && more && !last.At.IsZero() && !last.At.Before(since.Add(-lateBy)); looked++ {
		if time.Since(began) >= within && looked > 0 {
			return last, nil
		}
		if more, err = look(last.ID); err == nil && more {
			last, err = l.upTo(ctx, last.ID-newestPage)
		}
	}
	return place{}, err
}

// place is an entry's position in the log.
type place struct {
	ID int64
	At engine.Time
}

// upTo is the place of the last entry up to an id; zero if there is none.
func (l *Log) upTo(ctx context.Context, id int64) (place, error) {
	return l.place(ctx, l.db.SQL.ByID+" WHERE id <= ? ORDER BY id DESC", id)
}

// lastBefore is the place of the last entry that may lie before a time, or of the last one if that is zero.
func (l *Log) lastBefore(ctx context.Context, until time.Time) (place, error) {
	if until.IsZero() {
		return l.place(ctx, l.db.SQL.ByID+" ORDER BY id DESC")
	}
	end, from := engine.At(until.Add(lateBy)), l.db.SQL.Index(l.db.Activity(), "at")+" WHERE at < ?"
	last, err := l.place(ctx, from+" ORDER BY "+l.db.Activity()+".at DESC", end)
	if err != nil || last.ID == 0 {
		return last, err
	}
	return l.place(ctx, from+" AND at >= ? ORDER BY id DESC", end, engine.At(last.At.Add(-lateBy))) // it may be of an earlier time
}

func (l *Log) place(ctx context.Context, which string, args ...any) (p place, err error) {
	err = l.db.SQL.GetContext(ctx, &p, "SELECT id, "+l.db.SQL.TimeColumns("at")+" FROM "+l.db.Activity()+" "+which+" LIMIT 1", args...)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return p, err
}

// Touched returns up to most of the newest entries above an id, newest first, with no more than their id, kind, queue and job.
func (l *Log) Touched(ctx context.Context, after int64, most int) (entries []Entry, err error) {
	query := "SELECT id, kind, queue, CAST(job_id AS SIGNED INTEGER) AS job_id FROM " + l.db.Activity() + " " + l.db.SQL.ByID + " WHERE id > ? ORDER BY id DESC LIMIT ?"
	err = engine.Each(ctx, l.db.SQL, query, []any{after, most}, func(e Entry) error {
		entries = append(entries, e)
		return nil
	})
	return entries, texts.Wrap(err, "look for new activity")
}

// failedText is how much of an error Failed reads: enough for its fingerprint.
const failedText = 4096

// Failed calls f with each failed attempt since a time, newest first: Failed, or Error if it is retried. The entries
// have no key, no output, and only the beginning of the error. No index serves this: it scans for at most the time
// within. back is zero if it has scanned all since then, else the time that it has reached. It may be repeated.
func (l *Log) Failed(ctx context.Context, since time.Time, within time.Duration, f func(Entry)) (back time.Time, err error) {
	table, from := l.db.Activity(), engine.At(since)
	first, err := l.place(ctx, l.db.SQL.Index(table, "at")+" WHERE at >= ? ORDER BY id", from)
	if err == nil && first.ID > 0 {
		query := fmt.Sprintf("SELECT id, %s, state, queue, CAST(job_id AS SIGNED INTEGER) AS job_id, job_type, SUBSTR(error, 1, %d) AS error FROM %s %s"+
			" WHERE id >= ? AND id <= ? AND at >= ? AND kind = 'job' AND state IN ('failed', 'error') ORDER BY id DESC", l.db.SQL.TimeColumns("at"), failedText, table, l.db.SQL.ByID)
		var last, reached place
		if last, err = l.lastBefore(ctx, time.Time{}); err != nil {
			return back, fmt.Errorf("find attempts that failed: %w", err)
		}
		reached, err = l.eachPageBack(ctx, last, since, within, func(last int64) (more bool, err error) {
			return true, l.each(ctx, query, []any{max(first.ID, last-newestPage+1), last, from}, func(e Entry) error {
				f(e)
				return nil
			})
		})
		back = reached.At.Time
	}
	return back, texts.Wrap(err, "find attempts that failed")
}

// Started reports whether a job of a type has started since a time. If none has, it reads all entries since then.
func (l *Log) Started(ctx context.Context, queue, jobType string, since time.Time) (some bool, err error) {
	table := l.db.Activity()
	query := "SELECT EXISTS (SELECT 1 FROM " + table + " " + l.db.SQL.Index(table, "at") +
		" WHERE at >= ? AND kind = 'job' AND state = 'starting' AND queue = ? AND job_type = ?)"
	err = l.db.SQL.GetContext(ctx, &some, query, engine.At(since), queue, jobType)
	return some, texts.Wrap(err, "find out whether jobs of %s/%s were started", queue, jobType)
}
