package roster

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

// Ticks calls f with the ticks of all hosts in [from, to), one after the other in time.
func (r *Roster) Ticks(ctx context.Context, from, to time.Time, f func(Tick)) error {
	query := "SELECT host, " + r.db.TimeColumn("start_time") + " AS at, COALESCE(state = 'finished' AND started = 0, 0) AS idle FROM " + r.db.Workers() + " " +
		r.db.Index(r.db.Workers(), "start") + " WHERE start_time >= ? AND start_time < ? ORDER BY start_time"
	err := engine.Each(ctx, r.db.DB, query, []any{engine.At(from), engine.At(to)}, func(t Tick) error {
		f(t)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the ticks: %w", err)
	}
	return nil
}

// LastTicks gives the last tick of each host in [from, to).
func (r *Roster) LastTicks(ctx context.Context, from, to time.Time) (last []Tick, err error) {
	query := "SELECT host, " + r.db.TimeText("MAX(start_time)") + " AS at FROM " + r.db.Workers() + " " + r.db.Index(r.db.Workers(), "start") +
		" WHERE start_time >= ? AND start_time < ? GROUP BY host"
	if err := r.db.SelectContext(ctx, &last, query, engine.At(from), engine.At(to)); err != nil {
		return nil, fmt.Errorf("read the last ticks: %w", err)
	}
	return last, nil
}
