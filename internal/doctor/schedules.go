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
	late, paused, err := timetable.New(p.db, p.Config.Schedules).Late(ctx)
	if err != nil {
		return trouble(err)
	}
	if len(late) > 0 {
		list := make([]string, len(late))
		for i, l := range late {
			list[i] = fmt.Sprintf("%s for %s", l.Schedule, l.By.Round(time.Second))
		}
		return found(Wrong, "nobody sees to slots that are due: "+strings.Join(list, ", ")).
			but("does hipq work run with this config, for the queues of these schedules?")
	}
	return found(OK, fmt.Sprintf("%d, of which %d are paused; none is overdue", len(p.Config.Schedules), paused))
}
