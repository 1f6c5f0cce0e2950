package queue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Each order locks as it says, over several types, and also when it goes on from where the last lock ended.
func TestOrders(t *testing.T) {
	for _, c := range []struct {
		name     string
		order    job.Order
		priority job.PriorityOrder
		want     []int64
	}{
		{"priority", job.ByPriority, job.LowestFirst, []int64{6, 3, 5, 2, 1, 4, 7}},
		{"highest", job.ByPriority, job.HighestFirst, []int64{1, 4, 7, 5, 2, 6, 3}},
		{"schedule", job.BySchedule, job.LowestFirst, []int64{5, 1, 6, 4, 3, 2, 7}},
		{"schedule highest", job.BySchedule, job.HighestFirst, []int64{5, 1, 4, 6, 2, 3, 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			change := func(o *queue.Options) { o.Order, o.PriorityOrder = c.order, c.priority }
			suiteWith(t, change, func(s store) {
				now := must[time.Time](t)(s.db.Clock(t.Context())).Add(-time.Hour)
				for _, j := range []struct{ priority, minute int }{{30, 1}, {20, 3}, {10, 3}, {30, 2}, {20, 0}, {10, 2}, {30, 4}} {
					name := []string{"send", "report"}[j.minute%2]
					s.add(job.New{Type: name, Priority: new(j.priority), At: now.Add(time.Duration(j.minute) * time.Minute)})
				}
				s.hire("w1")
				locker := s.NewLocker("w1", []string{"send", "report"})
				var got []int64
				for {
					locked := must[[]queue.Locked](t)(locker.Lock(t.Context(), 2))
					if len(locked) == 0 {
						break
					}
					got = append(got, ids(locked)...)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("locked %v, want %v", got, c.want)
				}
			})
		})
	}
}

// An order whose index is missing is found out before anything is done, with the remedy.
func TestOrderWantsItsIndex(t *testing.T) {
	suite(t, func(s store) {
		o := options()
		o.Order = job.BySchedule
		err := s.db.Check(t.Context(), []schema.Queue{o.Table()})
		if kind, hint := schema.Diagnose(err); kind != schema.Misconfigured || hint != "run hipq init" || !strings.Contains(err.Error(), "emails") {
			t.Errorf("%v (%s)", err, hint)
		}
		changed := must[[]string](t)(s.db.Migrate(t.Context(), []schema.Queue{o.Table()}))
		if !slices.Equal(changed, []string{"shop_emails"}) {
			t.Errorf("changed %v", changed)
		}
		if err := s.db.Check(t.Context(), []schema.Queue{o.Table()}); err != nil {
			t.Error(err)
		}
	})
}

// The default priority holds for types that the config doesn't name.
func TestDefaultPriority(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.DefaultPriority = new(1000) }, func(s store) {
		s.add(job.New{Type: "new"}, job.New{Type: "send"})
		if a, b := s.get(1).Priority, s.get(2).Priority; a != 1000 || b != 100 {
			t.Errorf("priorities %d and %d", a, b)
		}
	})
}
