package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/queue/schedule"
)

// BenchmarkLook is what a tick asks of a thousand schedules, of which none is due.
func BenchmarkLook(b *testing.B) {
	for driver, source := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "mysql": dbtest.MySQL} {
		for _, n := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/%d", driver, n), func(b *testing.B) {
				var all []schedule.Schedule
				for i := range n {
					all = append(all, of(b, fmt.Sprintf("s%d", i), "@yearly"))
				}
				t := scheduler.New(dbtest.Open(b, driver, source(b), "emails"), all)
				if _, _, err := t.Load(b.Context(), 0); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if wait, err := t.Wait(b.Context()); err != nil || wait <= 0 {
						b.Fatalf("%s, %v", wait, err)
					}
				}
			})
		}
	}
}
