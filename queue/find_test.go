package queue_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// What no index serves is counted among the newest only, whichever index the filter's jobs are found by.
func TestCountFoundIsBounded(t *testing.T) {
	long := time.Now().Add(24 * time.Hour)
	suite(t, func(s store) {
		for range 4 {
			s.failed(job.New{Type: "send", Key: "k"})
		}
		s.add(job.New{Type: "send"})
		s.exec("UPDATE shop_emails SET state = 'retry' WHERE line = 'due'")
		s.exec("UPDATE shop_emails SET id = id + 200000 WHERE id >= ?", s.nth(4)) // so many jobs were there before the last two
		for name, c := range map[string]struct {
			by  queue.Filter
			n   int
			all bool
		}{
			"all":            {queue.Filter{}, 5, true},
			"state":          {queue.Filter{Standing: queue.Failed}, 4, true},
			"state and type": {queue.Filter{Standing: queue.Failed, Type: "send"}, 4, true},
			"type and key":   {queue.Filter{Type: "send", Key: "k"}, 4, true},
			"type":           {queue.Filter{Type: "send"}, 2, false},
			"error":          {queue.Filter{Error: "boo"}, 1, false},
			"state, error":   {queue.Filter{Standing: queue.Failed, Error: "boo"}, 1, false},
			"state, key":     {queue.Filter{Standing: queue.Failed, Key: "k"}, 1, false},
			"state, since":   {queue.Filter{Standing: queue.Failed, Since: long.Add(-48 * time.Hour)}, 1, false},
			"state, until":   {queue.Filter{Standing: queue.Failed, Until: long}, 1, false},
			"retry":          {queue.Filter{Standing: queue.Standing(job.Retry)}, 1, false},
		} {
			n, all, err := s.CountFound(t.Context(), c.by)
			if n != c.n || all != c.all || err != nil {
				s.t.Errorf("%s: %d, %t, %v, want %d, %t", name, n, all, err, c.n, c.all)
			}
		}
	})
}
