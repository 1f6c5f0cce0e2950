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
func (r *Table) Ticks(ctx context.Context, from, to time.Time) ([]Tick, error) {
	what := r.db.TimeColumn("start_time") + " AS at, COALESCE(state = 'finished' AND started = 0, 0) AS idle"
	return r.ticks(ctx, what, "ORDER BY start_time", from, to)
}

// LastTicks gives the last tick of each host in [from, to).
func (r *Table) LastTicks(ctx context.Context, from, to time.Time) ([]Tick, error) {
	return r.ticks(ctx, r.db.TimeText("MAX(start_time)")+" AS at", "GROUP BY host", from, to)
}

func (r *Table) ticks(ctx context.Context, what, how string, from, to time.Time) (ticks []Tick, err error) {
	query := "SELECT host, " + what + " FROM " + r.db.Workers() + " " + r.db.Index(r.db.Workers(), "start") +
		" WHERE start_time >= ? AND start_time < ? " + how
	if err := r.db.SelectContext(ctx, &ticks, query, engine.At(from), engine.At(to)); err != nil {
		return nil, fmt.Errorf("read the ticks: %w", err)
	}
	return ticks, nil
}
