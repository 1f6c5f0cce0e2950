// Package alert keeps cron from mailing the same thing repeatedly: across all hosts by the database, and on this host if the
// database is away.
package alert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/schema"
)

// Log is where all ticks of an instance record what has been said.
type Log struct{ db *schema.DB }

// NewLog returns the Log of db's instance.
func NewLog(db *schema.DB) Log { return Log{db} }

// leased is for how long a claim holds.
const leased = time.Minute

// Claim says whether the caller should say something that all hosts together say once per every; now is the database's time.
// If it was said recently, Claim costs one read. The caller then calls Note. If it dies before that, another claims it after
// a minute. Repeat Claim only after false without an error: after an error of a commit, it may be claimed.
func (b Log) Claim(ctx context.Context, what string, now time.Time, every time.Duration) (ours bool, err error) {
	if unsaid, err := b.Unsaid(ctx, []string{what}, now, every); err != nil || len(unsaid) == 0 {
		return false, err
	}
	var tried []time.Time
	err = b.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		if tx.MayBeDone {
			var said engine.Time
			err := tx.GetContext(ctx, &said, "SELECT "+b.db.SQL.TimeColumn("said_time")+" FROM "+b.db.Notices()+" WHERE notice = ?", what)
			if ours = err == nil && slices.ContainsFunc(tried, said.Equal); ours {
				return nil
			}
		}
		until := tx.Now.Add(leased - every)
		tried = append(tried, until)
		now := engine.At(until)
		res, err := tx.ExecContext(ctx, "UPDATE "+b.db.Notices()+" SET said_time = ? WHERE notice = ? AND (said_time <= ? OR said_time > ?)",
			now, what, engine.At(tx.Now.Add(-every)), engine.At(tx.Now.Add(every)))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			ours = n > 0
			return err
		}
		return tx.Undoing(ctx, func() error {
			_, err := tx.ExecContext(ctx, "INSERT INTO "+b.db.Notices()+" (notice, said_time) VALUES (?, ?)", what, now)
			ours = err == nil
			return err
		})
	})
	if engine.IsDuplicate(err) {
		return false, nil
	}
	return ours && err == nil, wrap(err)
}

// Once calls say if the caller should say something: see Claim. If say fails, the next caller says it.
func (b Log) Once(ctx context.Context, what string, now time.Time, every time.Duration, say func() error) error {
	ours, err := b.Claim(ctx, what, now, every)
	if err != nil || !ours {
		return err
	}
	if err = say(); err != nil {
		_, failed := b.Over(ctx, what)
		return errors.Join(err, failed)
	}
	return b.Note(ctx, []string{what}, now)
}

// Unsaid returns which of one or more things haven't been said for so long, with one read.
func (b Log) Unsaid(ctx context.Context, what []string, now time.Time, every time.Duration) ([]string, error) {
	times, err := b.Times(ctx, what)
	return slices.DeleteFunc(slices.Clone(what), func(w string) bool {
		// a future time is from before the clock was set back, and doesn't count
		return times[w].After(now.Add(-every)) && !times[w].After(now.Add(every))
	}), err
}

// Times returns when one or more things were last said, or done according to Note. It omits what never was.
func (b Log) Times(ctx context.Context, what []string) (map[string]time.Time, error) {
	return b.times(ctx, "notice IN "+engine.In(len(what)), engine.Args(what)...)
}

// Under returns the times of all things whose names begin with a word and a blank.
func (b Log) Under(ctx context.Context, word string) (map[string]time.Time, error) {
	return b.times(ctx, "notice >= ? AND notice < ?", word+" ", word+"!")
}

func (b Log) times(ctx context.Context, which string, args ...any) (map[string]time.Time, error) {
	var rows []struct {
		Notice string
		Said   engine.Time `db:"said_time"`
	}
	query := "SELECT notice, " + b.db.SQL.TimeColumns("said_time") + " FROM " + b.db.Notices() + " WHERE " + which
	if err := b.db.SQL.SelectContext(ctx, &rows, query, args...); err != nil {
		return nil, wrap(err)
	}
	times := map[string]time.Time{}
	for _, r := range rows {
		times[r.Notice] = r.Said.Time
	}
	return times, nil
}

// Note records until when things have been done. It may be repeated.
func (b Log) Note(ctx context.Context, what []string, until time.Time) error {
	return wrap(b.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		for _, w := range what {
			if err := tx.Upsert(ctx, b.db.Notices(), 1, []string{"notice", "said_time"}, []any{w, engine.At(until)}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Over deletes a thing. ours is true for only one caller, which should say that it is over.
func (b Log) Over(ctx context.Context, what string) (ours bool, err error) {
	err = b.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		did, err := engine.Changed(tx.ExecContext(ctx, "DELETE FROM "+b.db.Notices()+" WHERE notice = ?", what))
		ours = did || ours && tx.MayBeDone
		return err
	})
	return ours && err == nil, wrap(err)
}

func wrap(err error) error { return texts.Wrap(err, "check whether it was reported") }

// Purge deletes what was said before a time, in small transactions with pauses. It may be interrupted and repeated.
func (b Log) Purge(ctx context.Context, before time.Time) error {
	for {
		began := time.Now()
		var old []any
		err := b.db.SQL.SelectContext(ctx, &old, "SELECT notice FROM "+b.db.Notices()+" WHERE said_time < ? LIMIT ?", engine.At(before), engine.PurgeBatch)
		if err == nil && len(old) > 0 {
			err = b.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
				return tx.Write(ctx, "DELETE FROM "+b.db.Notices()+" WHERE said_time < ? AND notice IN "+engine.In(len(old)),
					append([]any{engine.At(before)}, old...)...)
			})
		}
		if err != nil {
			return fmt.Errorf("purge notices: %w", err)
		}
		if len(old) < engine.PurgeBatch {
			return nil
		}
		if err := b.db.SQL.Breathe(ctx, b.db.Workers(), began); err != nil {
			return err
		}
	}
}
