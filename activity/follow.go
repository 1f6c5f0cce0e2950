package activity

import (
	"context"
	"time"
)

// lateBy is how long after its id was given out an entry may still appear: the transaction of a lower id can commit
// after that of a higher one.
const lateBy = 10 * time.Second

// seenMax is after how many entries those are forgotten that are too old to matter.
const seenMax = 10_000

// Follow calls f with each entry that the filter lets pass, those that are there and then those that come, looking every
// so often, until ctx ends (which is no error) or f returns an error.
func (l *Log) Follow(ctx context.Context, by Filter, every time.Duration, f func(Entry) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	seen := map[int64]time.Time{}
	for {
		err := l.Find(ctx, by, func(e Entry) error {
			if _, ok := seen[e.ID]; ok {
				return nil
			}
			if seen[e.ID] = e.At; len(seen)%seenMax == 0 {
				by.After = forget(seen, by.After)
			}
			return f(e)
		})
		if err != nil && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		by.Limit = 0
		by.After = forget(seen, by.After)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
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
