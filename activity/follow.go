package activity

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/hipq/hipq/schema"
)

// FollowOptions say how Follow polls.
type FollowOptions struct {
	// Every is the polling interval; 0 means 1 s.
	Every time.Duration
	// Lost, if set, gets the error when the database becomes unreadable.
	Lost func(error)
	// Back, if set, is called when the database is readable again.
	Back func()
}

// Follow calls f once with each matching entry, existing and then new ones, until ctx ends (which is no error) or f
// returns an error. It waits out a busy or absent database. An entry comes when its transaction commits, however late.
// An entry that is uncommitted when Follow begins, or that another node of a Galera cluster writes, comes only if it is
// then among the newest: see followed.
func (l *Log) Follow(ctx context.Context, by Filter, o FollowOptions, f func(Entry) error) error {
	ticker := time.NewTicker(cmp.Or(o.Every, time.Second))
	defer ticker.Stop()
	w := l.follow(by)
	lost := false
	for {
		var own error // f's error
		err := w.look(ctx, func(e Entry) error {
			own = f(e)
			return own
		})
		trouble, _ := schema.Diagnose(err)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case own != nil, err != nil && trouble != schema.TryLater:
			return err
		case err != nil:
			if !lost && o.Lost != nil {
				o.Lost(err)
			}
			lost = true
		default:
			if lost && o.Back != nil {
				o.Back()
			}
			lost = false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// followed is how many of the newest ids each look reads: missing ids among them may still be committed.
const followed = 10_000

// follower is the state of Follow.
type follower struct {
	log *Log
	by  Filter
	// begin filters the remaining entries that existed at the start; nil once all have come.
	begin *Filter
	// known are the ids above floor that have come, or that don't match.
	known map[int64]bool
	floor int64
	// late are the ids up to floor that open transactions have written.
	late []span
	// window is the minimum number of newest entries above floor.
	window int
}

func (l *Log) follow(by Filter) *follower {
	w := &follower{log: l, by: by, begin: &by}
	if w.by.Limit = 0; l.db.SQL.Writers > 1 { // a single writer's ids are committed in order
		w.window = followed
	}
	return w
}

// look calls f with each new entry. After an error it resumes.
func (w *follower) look(ctx context.Context, f func(Entry) error) error {
	pass := func(e Entry) error {
		if e.ID > w.floor || w.begin == nil {
			w.known[e.ID] = true
		}
		return f(e)
	}
	if w.begin != nil {
		if err := w.lookFirst(ctx, pass); err != nil {
			return err
		}
	}
	of := append(slices.Clone(w.late), span{w.floor + 1, math.MaxInt64})
	there, err := w.log.ids(ctx, w.log.db.SQL, of)
	if err != nil {
		return err
	}
	for among := range slices.Chunk(spans(there, of, w.known), spansMax) {
		if err := w.log.find(ctx, w.by, among, pass); err != nil {
			return err
		}
	}
	for _, id := range there {
		w.known[id] = true
	}
	return w.rise(ctx, there)
}

// lookFirst passes the existing entries.
func (w *follower) lookFirst(ctx context.Context, pass func(Entry) error) error {
	if w.known == nil {
		newest := w.log.db.SQL.ByID + " WHERE id = (SELECT id FROM " + w.log.db.Activity() + " " + w.log.db.SQL.ByID + " ORDER BY id DESC LIMIT 1 OFFSET ?)"
		floor, err := w.log.place(ctx, newest, w.window)
		if err != nil {
			return err
		}
		there, err := w.log.ids(ctx, w.log.db.SQL, []span{{floor.ID + 1, math.MaxInt64}})
		if err != nil {
			return err
		}
		w.floor, w.known = floor.ID, map[int64]bool{}
		for _, id := range there {
			w.known[id] = true
		}
	}
	begin := *w.begin
	err := w.log.Find(ctx, begin, func(e Entry) error {
		w.begin.After, w.begin.Limit = e.ID, 0
		return pass(e)
	})
	if err == nil {
		w.begin = nil
	}
	return err
}

// rise raises the floor, with a window of entries above it. It keeps the ids below that may still be committed.
func (w *follower) rise(ctx context.Context, there []int64) error {
	floor := w.floor
	if n := len(there) - w.window; n > 0 {
		floor = max(floor, there[n-1])
	}
	if w.window > 0 && (len(w.late) > 0 || floor > w.floor) {
		of := append(w.late, span{w.floor + 1, floor})
		written, err := w.log.uncommitted(ctx, of)
		if err != nil {
			return err
		}
		w.late = spans(written, of, w.known)
		w.late = w.late[max(0, len(w.late)-spansMax):]
	}
	w.floor = floor
	maps.DeleteFunc(w.known, func(id int64, _ bool) bool { return id <= floor })
	return nil
}
