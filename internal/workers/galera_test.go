package workers

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// A host's workers may claim slots on different nodes of a cluster. Together they get no more than there are.
func TestGaleraSlots(t *testing.T) {
	var rosters []*Table
	for _, dsn := range dbtest.Galera(t) {
		rosters = append(rosters, New(dbtest.Open(t, "mysql", dsn)))
	}
	for round := range 40 {
		var all sync.WaitGroup
		for n, r := range rosters {
			w := Worker{ID: fmt.Sprintf("worker-%d-%d", round, n), Host: fmt.Sprint("host", round), PID: 1}
			dbtest.OK(t, r.Register(t.Context(), w, time.Hour))
			all.Go(func() {
				_, _, err := r.TakeSlots(t.Context(), w, map[string]SlotWish{"": {Want: 4, Limit: 4}}, nil, true)
				dbtest.Ensure(t, err == nil, "%v", err)
			})
		}
		all.Wait()
	}
	// All nodes have the last worker's writes once they have a later write of the first.
	last := Worker{ID: "last", Host: "last", PID: 1}
	for _, r := range rosters {
		last.ID += "."
		dbtest.OK(t, r.Register(t.Context(), last, time.Hour))
	}
	rows := dbtest.Must(rosters[0].AtWork(t.Context()))(t)
	taken := map[string]int{}
	for _, row := range rows {
		taken[row.Host] += row.Slots
	}
	for host, n := range taken {
		dbtest.Ensure(t, n == 4 || host == last.Host, "%d slots of 4 are taken on %s", n, host)
	}
}
