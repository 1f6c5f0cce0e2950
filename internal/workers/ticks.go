package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// Tick is a worker's start.
type Tick struct {
	Host string
	At   engine.Time
	// Idle says that the worker ended in order and had started no job.
	Idle bool
}

// Ticks gives the ticks of all hosts in [from, to), in the order of time.
func (r *Table) Ticks(ctx context.Context, from, to time.Time) (ticks []Tick, err error) {
	query := "SELECT host, " + r.db.SQL.TimeColumn("start_time") + " AS at, COALESCE(state = 'finished' AND started = 0, 0) AS idle FROM " +
		r.db.Workers() + " " + r.db.SQL.Index(r.db.Workers(), "start") + " WHERE start_time >= ? AND start_time < ? ORDER BY start_time"
	if err := r.db.SQL.SelectContext(ctx, &ticks, query, engine.At(from), engine.At(to)); err != nil {
		return nil, fmt.Errorf("read the ticks: %w", err)
	}
	return ticks, nil
}
