package queue_test

import (
	"testing"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// TestProceduresOverdue: an attempt that is over its time ends at the next look, although its worker lives: hipq can't stop a
// handler in another program, and that program may have got stuck with its heartbeat going on.
func TestProceduresOverdue(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s store) {
		id := s.add(job.New{Type: "send"})[0].ID
		g := s.begin("w1")
		s.exec("UPDATE shop_emails SET timeout = 10, start_time = start_time - INTERVAL 1 MINUTE")
		s.call("worker_heartbeat", "w1")
		s.upkeep()
		j := s.get(id)
		if j.State == job.Running || j.Error != "timeout after 10s" {
			t.Errorf("it is %s, with the error %s", j.State, j.Error)
		}
		s.wantHistory(id, "added/0 starting/1 error/1")
		if _, err := s.try("job_complete", "w1", "emails", g["id"], g["token"], nil); err == nil {
			t.Error("it was completed after its time")
		}
	})
}
