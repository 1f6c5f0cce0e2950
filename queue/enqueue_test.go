package queue_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
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
