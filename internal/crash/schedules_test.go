package crash

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

const (
	// scheduleTicks is how many ticks run at once. Some are killed.
	scheduleTicks, scheduleTicksShort = 50, 10
	// missedSlots is for how many minutes no worker ran.
	missedSlots = 30
)

// TestSchedules runs many ticks at once after 30 min without one, and kills some of them. Each minute's slot gets one
// job in each schedule, although the jobs vanish as soon as they have run.
func TestSchedules(t *testing.T) {
	bin := build(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		h := configure(t, bin, driver, source, plan{})
		h.settings = `worker: {lock_for: 5s, grace: 0s, concurrency: 100}
queues: [{name: mail, keep_finished: 0, job_types: [{name: quick, handler: {exec: ['true']}}]}]
schedules:
  - {name: every, when: "* * * * *", queue: mail, type: quick, missed: all}
  - {name: other, when: "@every 1m", queue: mail, type: quick, missed: all}
`
		h = h.by(t, source)
		h.mustRun(t, "init")
		h.mustRun(t, "work")
		db := openDatabase(t, driver, source)
		back := `UPDATE crash_schedules SET next_slot = '2026-01-01 00:00:00.000000', seen_until = DATE_FORMAT(UTC_TIMESTAMP() - INTERVAL 30 MINUTE, '%Y-%m-%d %H:%i:00')`
		if driver == "sqlite" {
			back = `UPDATE crash_schedules SET next_slot = '2026-01-01 00:00:00.000000', seen_until = strftime('%Y-%m-%d %H:%M:00', 'now', '-30 minutes') || '.000000'`
		}
		dbtest.Must(db.Exec(back))(t)
		dbtest.Must(db.Exec("DELETE FROM crash_activity"))(t)
		ticks := scheduleTicks
		if testing.Short() {
			ticks = scheduleTicksShort
		}
		var all sync.WaitGroup
		for n := range ticks {
			tick := h.command("work")
			must(t, tick.Start())
			all.Go(func() {
				if n%3 == 0 {
					time.Sleep(rand.N(2 * time.Second))
					_ = tick.Process.Kill()
				}
				if _, killed := tick.Wait().(*exec.ExitError); killed && n%3 != 0 { //nolint:errorlint // Wait doesn't wrap it
					t.Errorf("tick %d: %s", n, tick.ProcessState)
				}
			})
		}
		all.Wait()
		patience, stop := context.WithTimeout(t.Context(), *patienceFlag)
		defer stop()
		slots := map[string]int{}
		for len(slots) < 2*missedSlots && patience.Err() == nil {
			h.mustRun(t, "work") // a killed tick's locks are free when the database notices its death
			clear(slots)
			err := db.each("SELECT output FROM crash_activity WHERE state = 'added'", nil, func(rows *sql.Rows) error {
				var slot string
				err := rows.Scan(&slot)
				slots[slot]++
				return err
			})
			must(t, err)
		}
		for slot, n := range slots {
			dbtest.Ensure(t, n == 1 && strings.HasPrefix(slot, "schedule "), "%q has %d jobs", slot, n)
		}
		for name, at := range map[string]int{"every": 0, "other": 0} {
			for slot := range slots {
				if strings.HasPrefix(slot, "schedule "+name+", ") {
					at++
				}
			}
			if at < missedSlots || at > missedSlots+10 { // more minutes have begun meanwhile
				t.Errorf("%s: %d slots", name, at)
			}
		}
	})
}
