package scheduler_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/schedule"
)

// Workers on different nodes handle the same slots at the same time: each slot gets one job.
func TestGaleraTend(t *testing.T) {
	var all []schedule.Schedule
	for i := range 20 {
		all = append(all, of(t, fmt.Sprint("s", i), "* * * * *", func(s *schedule.Schedule) { s.Missed = schedule.All }))
	}
	var nodes []*shop
	for _, dsn := range dbtest.Galera(t) {
		// wait on each node for what the others committed
		nodes = append(nodes, openShop(t, "mysql", dsn+"?wsrep_sync_wait=15", all...))
	}
	first := nodes[0]
	first.begin()
	for range 3 {
		first.nobody(10 * time.Minute)
		first.exec("DELETE FROM shop_activity")
		first.exec("DELETE FROM shop_emails") // the jobs' keys are those of the slots
		var together sync.WaitGroup
		for _, s := range nodes {
			together.Go(func() { s.tend() })
		}
		together.Wait()
		for _, s := range all {
			slots := len(first.added(s.Name))
			if slots < 10 || slots > 20 { // a minute may begin meanwhile
				t.Errorf("%s: %d jobs in 10 minutes", s.Name, slots)
			}
			first.once(s.Name, slots)
		}
	}
}
