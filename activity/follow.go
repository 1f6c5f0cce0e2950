package activity

import (
	"context"
	"time"

	"github.com/hipq/hipq/schema"
)

// lateBy is how long after its id was given out an entry may still appear: the transaction of a lower id can commit
// after that of a higher one.
const lateBy = 10 * time.Second

// seenMax is after how many entries those are forgotten that are too old to matter.
const seenMax = 10_000

// FollowOptions say how Follow goes about it.
type FollowOptions struct {
	// Every is how often it looks.
	Every time.Duration
	// Lost, if there is one, is told why the database can't be read any more, and Back that it can be again.
	Lost func(error)
	Back func()
}

// Follow calls f with each entry that the filter lets pass, those that are there and then those that come, each once, until ctx
// ends (which is no error) or f returns an error. A database that is busy, or away, it asks again until it answers.
func (l *Log) Follow(ctx context.Context, by Filter, o FollowOptions, f func(Entry) error) error {
	ticker := time.NewTicker(o.Every)
	defer ticker.Stop()
	seen := map[int64]time.Time{}
	lost := false
	for {
		var own error // of f
		err := l.Find(ctx, by, func(e Entry) error {
			if _, ok := seen[e.ID]; ok {
				return nil
			}
			if seen[e.ID] = e.At; len(seen)%seenMax == 0 {
				by.After = forget(seen, by.After)
			}
			own = f(e)
			return own
		})
		trouble, _ := schema.Diagnose(err)
		by = by.goingOn(seen)
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
			lost, by.Limit, by.After = false, 0, forget(seen, by.After)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// goingOn is a filter for what has not been seen, whether Find has found all or failed in the middle: the newest so many are others
// by now, and those before them are to be left out.
func (by Filter) goingOn(seen map[int64]time.Time) Filter {
	if by.Limit == 0 || len(seen) == 0 {
		return by
	}
	first := int64(0)
	for id := range seen {
		if first == 0 || id < first {
			first = id
		}
	}
	by.Limit, by.After = 0, max(by.After, first-1)
	return by
}

// forget drops what is so old that nothing can appear before it any more, and gives the id after which to go on.
func forget(seen map[int64]time.Time, after int64) int64 {
	var newest time.Time
	for _, at := range seen {
		if at.After(newest) {
			newest = at
		}
	}
	for id, at := range seen {
		if newest.Sub(at) > lateBy {
			after = max(after, id)
		}
	}
	for id := range seen {
		if id <= after {
			delete(seen, id)
		}
	}
	return after
}
