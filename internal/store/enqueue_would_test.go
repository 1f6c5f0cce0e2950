package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hipq/hipq/queue/job"
)

// WouldEnqueue says what EnqueueMany does then, but for the ids of what is added, and writes nothing.
func TestWouldEnqueue(t *testing.T) {
	suite(t, func(s env) {
		enqueue := func(jobs ...job.Params) { must[[]job.Added](s.t)(s.EnqueueMany(s.t.Context(), jobs)) }
		enqueue(job.Params{Type: "send", Key: "live"}, job.Params{Type: "send", Key: "runs"}, job.Params{Type: "send", Key: "over"})
		s.exec("UPDATE shop_emails SET status = 'running', attempt = 1 WHERE job_key = 'runs'")
		s.exec("UPDATE shop_emails SET status = 'finished' WHERE job_key = 'over'")
		written := func() (n int) {
			query := "SELECT (SELECT COUNT(*) FROM shop_emails) + (SELECT COUNT(*) FROM shop_activity) +" +
				" (SELECT COUNT(*) FROM shop_job_types)"
			must[any](s.t)(nil, s.db.SQL.GetContext(s.t.Context(), &n, query))
			return n
		}
		lists := map[string][]string{
			"none": {}, "live": {"live"}, "runs": {"runs"}, "final": {"over"}, "twins": {"a", "a"},
			"all": {"b", "live", "c", "runs", "b"}, "many": {},
		}
		for n := range 600 { // more than a statement takes
			lists["many"] = append(lists["many"], fmt.Sprint("many", n))
		}
		lists["many"] = append(lists["many"], "many0")
		for _, how := range []job.OnDuplicate{job.KeepDuplicate, job.ReplaceDuplicate, job.RefuseDuplicate} {
			for name, keys := range lists {
				var jobs []job.Params
				for _, key := range keys {
					jobs = append(jobs, job.Params{Type: "send", Key: key, OnDuplicate: how})
				}
				before := written()
				would, refused := s.WouldEnqueue(s.t.Context(), jobs)
				if written() != before {
					s.t.Errorf("%s, %s: it wrote something", how, name)
				}
				added, err := s.EnqueueMany(s.t.Context(), jobs)
				for i := range min(len(added), len(would)) {
					if would[i].ID == 0 {
						added[i].ID = 0 // a new job's, or that of a twin before it
					}
				}
				if errors.Is(err, job.ErrDuplicateKey) != errors.Is(refused, job.ErrDuplicateKey) || !slices.Equal(added, would) {
					s.t.Errorf("%s, %s: %v, %v, it said %v, %v", how, name, added, err, would, refused)
				}
				s.exec("DELETE FROM shop_emails WHERE job_key NOT IN ('live', 'runs')")
			}
		}
		before := written()
		if _, err := s.WouldEnqueue(s.t.Context(), []job.Params{{Type: "unheard-of"}}); err != nil || written() != before {
			s.t.Errorf("a new type: %v, or it was registered", err)
		}
	})
}
