package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/timetable"
)

// lookAtSchedules says which schedules of the config have a slot that no worker has seen to for some time.
func lookAtSchedules(ctx context.Context, p *patient) Finding {
	if len(p.Config.Schedules) == 0 {
		return found(OK, "the config has none")
	}
	rows, err := timetable.New(p.db, p.Config.Schedules).Rows(ctx)
	if err != nil {
		return trouble(err)
	}
	now, err := p.db.Clock(ctx)
	if err != nil {
		return trouble(err)
	}
	known := map[string]timetable.Row{}
	for _, r := range rows {
		known[r.Name] = r
	}
	var late []string
	paused := 0
	for _, s := range p.Config.Schedules {
		r := known[s.Name]
		if r.Paused {
			paused++
		}
		if by := r.Overdue(now); by > timetable.OverdueFor {
			late = append(late, fmt.Sprintf("%s for %s", s.Name, by.Round(time.Second)))
		}
	}
	if len(late) > 0 {
		return found(Wrong, "nobody sees to slots that are due: "+strings.Join(late, ", ")).
			but("does hipq work run with this config, for the queues of these schedules?")
	}
	return found(OK, fmt.Sprintf("%d, of which %d are paused; none is overdue", len(p.Config.Schedules), paused))
}
