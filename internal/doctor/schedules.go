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
	table := timetable.New(p.db, p.Config.Schedules)
	late, paused, err := table.Late(ctx)
	if err != nil {
		return trouble(err)
	}
	inTurn, err := table.InTurn(ctx)
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
	if len(inTurn) > 0 {
		list := make([]string, len(inTurn))
		for i, r := range inTurn {
			list[i] = fmt.Sprintf("%s as %s and as %s", r.Name, r.FormerSpec, r.Spec)
		}
		return found(Wrong, "two configs have schedules with different slots, which begin anew in turn, so that slots may be lost: "+strings.Join(list, ", ")).
			but("give all hosts the same when and zone, or each schedule a name of its own")
	}
	return found(OK, fmt.Sprintf("%d, of which %d are paused; none is overdue", len(p.Config.Schedules), paused))
}
