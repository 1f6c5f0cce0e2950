package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/scheduler"
)

func lookAtSchedules(ctx context.Context, p *patient) Finding {
	if len(p.Config.Schedules) == 0 {
		return found(OK, "the config has none")
	}
	rows, err := scheduler.New(p.db, p.Config.Schedules).Own(ctx)
	if err != nil {
		return trouble(err)
	}
	var late, inTurn []string
	paused := 0
	for _, r := range rows {
		if r.Paused {
			paused++
		}
		if by := r.Overdue(); by > scheduler.OverdueFor {
			late = append(late, fmt.Sprintf("%s for %s", r.Name, by.Round(time.Second)))
		}
		if r.InTurn() {
			inTurn = append(inTurn, fmt.Sprintf("%s as %s and as %s", r.Name, r.FormerSpec, r.Spec))
		}
	}
	if len(late) > 0 {
		return found(Wrong, "nobody sees to slots that are due: "+strings.Join(late, ", ")).
			but("does hipq work run with this config, for the queues of these schedules?")
	}
	if len(inTurn) > 0 {
		return found(Wrong, "two configs have schedules with different slots, which begin anew in turn, so that slots may be lost: "+strings.Join(inTurn, ", ")).
			but("give all hosts the same when and zone, or each schedule a name of its own")
	}
	return found(OK, fmt.Sprintf("%d, of which %d are paused; none is overdue", len(p.Config.Schedules), paused))
}
