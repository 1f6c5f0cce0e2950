package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// What no index serves is counted among the newest only, whichever index the filter's jobs are found by.
func TestCountFoundIsBounded(t *testing.T) {
	long := time.Now().Add(24 * time.Hour)
	suite(t, func(s env) {
		for range 4 {
			s.failed(job.Params{Type: "send", Key: "k"})
		}
		s.add(job.Params{Type: "send"})
		s.exec("UPDATE shop_emails SET attempt = 1 WHERE status = 'available'")
		s.exec("UPDATE shop_emails SET id = id + 200000 WHERE id >= ?", s.nth(4)) // so many jobs were there before the last two
		for name, c := range map[string]struct {
			by  admin.Filter
			n   int
			all bool
		}{
			"all":            {admin.Filter{}, 5, true},
			"state":          {admin.Filter{Status: admin.Failed}, 4, true},
			"state and type": {admin.Filter{Status: admin.Failed, Type: "send"}, 4, true},
			"type and key":   {admin.Filter{Type: "send", Key: "k"}, 4, true},
			"type":           {admin.Filter{Type: "send"}, 2, false},
			"error":          {admin.Filter{Error: "boo"}, 1, false},
			"state, error":   {admin.Filter{Status: admin.Failed, Error: "boo"}, 1, false},
			"state, key":     {admin.Filter{Status: admin.Failed, Key: "k"}, 1, false},
			"state, since":   {admin.Filter{Status: admin.Failed, Since: long.Add(-48 * time.Hour)}, 1, false},
			"state, until":   {admin.Filter{Status: admin.Failed, Until: long}, 1, false},
			"retry":          {admin.Filter{Status: admin.Status(job.Retry)}, 1, false},
		} {
			n, all, err := s.CountFound(t.Context(), c.by)
			ensure(s.t, n == c.n && all == c.all && err == nil, "%s: %d, %t, %v, want %d, %t", name, n, all, err, c.n, c.all)
		}
	})
}

// Among looks at the newest jobs only, whatever their ids, and lets pass of them what the filter does otherwise.
func TestFindAmong(t *testing.T) {
	suite(t, func(s env) {
		find := func(by admin.Filter) []int64 { return must[[]int64](s.t)(s.FindIDs(s.t.Context(), by)) }
		equal(s.t, len(find(admin.Filter{Among: 2})), 0, "of an empty queue")
		s.exec("INSERT INTO shop_emails (id, job_type, status, error) VALUES (1, 'send', 'failed', 'x'), (2, 'send', 'failed', 'x')," +
			" (5, 'send', 'finished', 'NONE'), (100, 'send', 'failed', 'x'), (1000, 'send', 'failed', 'x')")
		for among, want := range map[int][]int64{0: {1, 2, 100, 1000}, 1: {1000}, 3: {100, 1000}, 4: {2, 100, 1000}, 9: {1, 2, 100, 1000}} {
			by := admin.Filter{Status: admin.Failed, Type: "send", Among: among}
			equal(s.t, find(by), want, "among %d", among)
			var found []int64
			must[any](s.t)(nil, s.Find(s.t.Context(), by, func(j *job.Job) error {
				found = append(found, j.ID)
				return nil
			}))
			if n, all, err := s.CountFound(s.t.Context(), by); !slices.Equal(found, want) || n != len(want) || !all || err != nil {
				s.t.Errorf("among %d: %v and %d, %t, %v, want %v", among, found, n, all, err, want)
			}
		}
		equal(s.t, find(admin.Filter{Status: admin.Failed, Among: 3, Limit: 1}), []int64{1000}, "the newest of those")
	})
}
