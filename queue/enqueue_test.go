package queue_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

func keyed(n int, on job.OnDuplicate) []job.New {
	jobs := make([]job.New, n)
	for i := range jobs {
		jobs[i] = job.New{Type: "send", Key: fmt.Sprintf("k%03d", i), OnDuplicate: on}
	}
	return jobs
}

// A multi-row insert goes in several statements: one that is refused comes behind others that are in.
func TestDuplicateAmongMany(t *testing.T) {
	suite(t, func(s store) {
		there := s.add(job.New{Type: "send", Key: "k070"})[0].ID
		seen := map[int64]bool{}
		for i, a := range s.add(keyed(120, "")...) {
			if seen[a.ID] || a.Duplicate != (i == 70) || a.Duplicate && a.ID != there {
				t.Errorf("%d: %+v", i, a)
			}
			seen[a.ID] = true
			s.wantHistory(a.ID, "added/0")
			if j := s.get(a.ID); j.Key != fmt.Sprintf("k%03d", i) {
				t.Errorf("%d: id %d has the key %s", i, a.ID, j.Key)
			}
		}
	})
}

func TestRefusedAmongMany(t *testing.T) {
	suite(t, func(s store) {
		there := s.add(job.New{Type: "send", Key: "k070"})[0].ID
		added, err := s.EnqueueMany(t.Context(), keyed(120, job.RefuseDuplicate))
		refused, ok := errors.AsType[*queue.DuplicateError](err)
		if !ok || refused.Index != 70 || refused.ID != there {
			t.Errorf("%v", err)
		}
		if counts := must[queue.Counts](t)(s.Counts(t.Context())); len(added) != 70 || counts.Due != 71 {
			t.Errorf("added %d, due are %d", len(added), counts.Due)
		}
	})
}

// SQLite puts no more than 500 selects together.
func TestHundredsOfTypes(t *testing.T) {
	suiteWith(t, func(o *queue.Options) {
		for i := range 300 {
			o.Types = append(o.Types, job.DefaultType(fmt.Sprintf("type%03d", i)))
		}
	}, func(s store) {
		var types []string
		for _, name := range s.Types {
			types = append(types, name.Name)
			s.add(job.New{Type: name.Name})
		}
		s.hire("w1")
		r := s.newRound("w1", 1000)
		r.Candidates = s.Candidates(types)
		if done := s.do(r); len(done.Started) != len(types) {
			t.Errorf("started %d of %d", len(done.Started), len(types))
		}
	})
}

// An application's open transaction with the same key holds an enqueue up for less than half a minute.
func TestEnqueueBesideAnOpenTransaction(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as Enqueue has patience")
	}
	mysqlSuite(t, func(*queue.Options) {}, func(s store) {
		open := must[*sql.Tx](t)(s.db.BeginTx(t.Context(), nil))
		defer func() { _ = open.Rollback() }()
		for _, statement := range []string{
			"SET /*M! idle_transaction_timeout = 0, */ wait_timeout = 100", // an application's has no such bounds as hipq's
			"INSERT INTO shop_emails (job_type, job_key) VALUES ('send', 'k')",
		} {
			if _, err := open.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		_, err := s.Enqueue(t.Context(), job.New{Type: "send", Key: "k"})
		if kind, _ := schema.Diagnose(err); kind != schema.TryLater || time.Since(began) > 30*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		s.add(job.New{Type: "send", Key: "other"})
	})
}

// A job that another transaction holds keeps no other job of a dead worker from being reclaimed.
func TestReclaimBesideAnOpenTransaction(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s store) {
		s.add(job.New{Type: "send"}, job.New{Type: "send"}, job.New{Type: "send"})
		s.start("w", 3)
		s.bury("w")
		letGo := s.held("SELECT id FROM shop_emails WHERE id = 2")
		s.upkeep()
		s.wantState(1, job.Retry, job.LineLater, 1)
		s.wantState(2, job.Running, job.LineLocked, 1)
		s.wantState(3, job.Retry, job.LineLater, 1)
		letGo()
		s.upkeep()
		s.wantState(2, job.Retry, job.LineLater, 1)
	})
}
