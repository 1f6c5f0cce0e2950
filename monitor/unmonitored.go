package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// Unmonitored is since when nobody has taken an hour, if there has been activity for a day since then; else it is zero. What
// has happened since can't be purged.
func (m *Monitor) Unmonitored(ctx context.Context) (since time.Time, err error) {
	now, err := m.db.Clock(ctx)
	if err != nil {
		return since, err
	}
	var last, first engine.Time
	if err := m.db.QueryRowContext(ctx, "SELECT "+m.db.TimeText("MAX(hour)")+" FROM "+m.db.Hours()).Scan(&last); err != nil {
		return since, fmt.Errorf("find the last hour taken: %w", err)
	}
	next := time.Unix(0, 0)
	if !last.IsZero() {
		next = last.Add(time.Hour)
	}
	if err := m.db.QueryRowContext(ctx, "SELECT "+m.db.TimeText("MIN(at)")+" FROM "+m.db.Activity()+" WHERE at >= ?", engine.At(next)).Scan(&first); err != nil {
		return since, fmt.Errorf("find the first activity that nobody has taken: %w", err)
	}
	if first.IsZero() || now.Sub(first.Time) < 24*time.Hour+settling {
		return since, nil
	}
	return hourOf(first.Time), nil
}
