package store_test

import (
	"slices"
	"testing"

	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// Among looks at the newest jobs only, whatever their ids, and lets pass of them what the filter does otherwise.
func TestFindAmong(t *testing.T) {
	suite(t, func(s env) {
		find := func(by admin.Filter) []int64 { return must[[]int64](s.t)(s.FindIDs(s.t.Context(), by)) }
		if ids := find(admin.Filter{Among: 2}); len(ids) > 0 {
			s.t.Errorf("of an empty queue: %v", ids)
		}
		s.exec("INSERT INTO shop_emails (id, job_type, status, error) VALUES (1, 'send', 'failed', 'x'), (2, 'send', 'failed', 'x')," +
			" (5, 'send', 'finished', 'NONE'), (100, 'send', 'failed', 'x'), (1000, 'send', 'failed', 'x')")
		for among, want := range map[int][]int64{0: {1, 2, 100, 1000}, 1: {1000}, 3: {100, 1000}, 4: {2, 100, 1000}, 9: {1, 2, 100, 1000}} {
			by := admin.Filter{Status: admin.Failed, Type: "send", Among: among}
			if ids := find(by); !slices.Equal(ids, want) {
				s.t.Errorf("among %d: %v, want %v", among, ids, want)
			}
			var found []int64
			must[any](s.t)(nil, s.Find(s.t.Context(), by, func(j *job.Job) error {
				found = append(found, j.ID)
				return nil
			}))
			if !slices.Equal(found, want) {
				s.t.Errorf("among %d: %v, want %v", among, found, want)
			}
		}
		if ids := find(admin.Filter{Status: admin.Failed, Among: 3, Limit: 1}); !slices.Equal(ids, []int64{1000}) {
			s.t.Errorf("the newest of those: %v", ids)
		}
	})
}
