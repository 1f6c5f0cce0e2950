package activity

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// Failed are the entries of the jobs that failed for good since a time, newest first, limit at most. It reads all that has
// happened since, in the index.
func (l *Log) Failed(ctx context.Context, since time.Time, limit int) (entries []Entry, err error) {
	query := "SELECT id, " + readColumns + " FROM " + l.db.Activity() + " " + l.db.Index(l.db.Activity(), "at") +
		" WHERE at >= ? AND kind = 'job' AND state = 'failed' ORDER BY at DESC, id DESC LIMIT ?"
	if err := l.db.SelectContext(ctx, &entries, query, engine.At(since), limit); err != nil {
		return nil, fmt.Errorf("find jobs that failed: %w", err)
	}
	return entries, nil
}
