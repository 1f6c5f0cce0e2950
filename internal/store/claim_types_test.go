package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// A poll and a round find the due jobs of exactly the types that a worker serves, whichever types have some.
func TestTypes(t *testing.T) {
	suite(t, func(s env) {
		all := []string{"a", "b", "c", "d", "e"}
		for due := range 1 << len(all) {
			var there []string
			var jobs []job.Params
			for i, name := range all {
				if due>>i&1 == 1 {
					there = append(there, name)
					jobs = append(jobs, job.Params{Type: name, ThrottleFactor: new(i % 2)})
				}
			}
			for _, types := range []store.Types{
				{}, {"b"}, {"a", "e"}, {"*"}, {"*", "b"}, {"c", "*", "a", "e"}, {"a", "b", "*", "c", "d", "e"}, {"*", "a", "b", "c", "d", "e"},
			} {
				s.exec("DELETE FROM shop_emails")
				if len(jobs) > 0 {
					s.add(jobs...)
				}
				var want []string
				for _, name := range there {
					at := slices.Index(types, "*")
					own := at < 0 && slices.Contains(types, name) || at >= 0 && !slices.Contains(types[at+1:], name)
					ensure(s.t, types.Has(name) == own, "%v has %s", types, name)
					if own {
						want = append(want, name)
					}
				}
				ensure(s.t, must[store.Poll](s.t)(s.core().Poll(s.t.Context(), types)).Due == (len(want) > 0), "a poll for %v beside jobs of %v", types, there)
				var got []string
				s.hire("w")
				for _, j := range s.doWith(s.candidates(types...), "w", 10).Started {
					got = append(got, j.Type)
				}
				slices.Sort(got)
				equal(s.t, strings.Join(got, " "), strings.Join(want, " "), fmt.Sprint("a round for ", types, " beside jobs of ", there))
			}
		}
	})
}

// Retry decisions go by the same types.
func TestUndecidedOfTypes(t *testing.T) {
	suite(t, func(s env) {
		s.hire("w")
		for _, name := range []string{"a", "b", "c"} {
			s.add(job.Params{Type: name})
		}
		for _, j := range s.doWith(s.candidates("*"), "w", 10).Started {
			s.fail(job.StatusUndecided, job.Outcome{Verdict: job.TryAgain, Error: "no"}, j)
		}
		for i, types := range []store.Types{{"*", "a", "b", "c"}, {"*", "a", "b"}, {"a", "*", "b"}} {
			list := must[[]store.Settled](s.t)(s.core().Undecided(s.t.Context(), s.newRound("w", 5), types))
			equal(s.t, len(list), []int{0, 1, 1}[i], fmt.Sprint("jobs to decide about for ", types))
		}
	})
}

// A poll and rounds read little with 200 types behind one handler, three of which have many due jobs, or all; and as much
// however many are due.
func TestManyTypesReadLittle(t *testing.T) {
	parallel(t)
	undivided(t) // it counts rows
	for name, change := range map[string]func(*queue.Options){
		"plain": func(*queue.Options) {}, "limit": func(o *queue.Options) { o.ThrottleLimit = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			mysqlSuite(t, change, func(s env) {
				const types = 200
				class := func(i int) string { return fmt.Sprintf(`App\Jobs\Class%03d`, i) }
				for i := range types {
					s.multiply(class(i), job.StatusScheduled, 1, 1, 5, 0)
				}
				s.hire("w")
				measure := func(what string, mostOfPoll, mostOfRound int64) {
					var jobs []*job.Job
					poll := s.reads(func() { must[store.Poll](s.t)(s.core().Poll(s.t.Context(), store.Types{"*"})) })
					candidates := s.candidates("*")
					first := s.reads(func() { jobs = s.doWith(candidates, "w", 10).Started })
					next := s.reads(func() { jobs = append(jobs, s.doWith(candidates, "w", 10, settled(finished, jobs...)...).Started...) })
					s.t.Logf("%s: a poll reads %d, the first round %d, the next %d", what, poll, first, next)
					ensure(s.t, len(jobs) == 20, "%s: two rounds started %d", what, len(jobs))
					ensure(s.t, poll <= mostOfPoll && first <= mostOfRound && next <= mostOfRound, "%s: a poll read %d, rounds %d and %d", what, poll, first, next)
				}
				for times := range 3 {
					for _, i := range []int{0, 77, 199} {
						s.multiply(class(i), job.StatusAvailable, 100, 1, 500, 2*times)
					}
					measure(fmt.Sprintf("three types, step %d", times), 100, 1200)
				}
				s.exec("UPDATE shop_emails SET status = 'available', wake_time = NULL WHERE status = 'scheduled'")
				measure("all types", 100, 5000)
			})
		})
	}
}

// A job type may have 255 bytes, in each index and by each way in.
func TestLongestType(t *testing.T) {
	suite(t, func(s env) {
		long := strings.Repeat("🙂", 63) + "xyz"
		equal(s.t, len(long), job.MaxTypeBytes, "bytes")
		id := s.add(job.Params{Type: long, Key: strings.Repeat("k", job.MaxKeyBytes)})[0].ID
		equal(s.t, s.get(id).Type, long, "its type")
		again := s.add(job.Params{Type: long, Key: strings.Repeat("k", job.MaxKeyBytes)})[0]
		ensure(s.t, again.Duplicate && again.ID == id, "%+v", again)
		s.exec("INSERT INTO shop_emails (job_type) VALUES (?)", long)
		s.hire("w")
		must[bool](s.t)(s.core().Upkeep(s.t.Context(), workers.Worker{ID: "w", Host: "h", PID: 1}, store.Poll{New: true}, nil, nil))
		equal(s.t, len(s.doWith(s.candidates("*"), "w", 10).Started), 2, "started")
		_, err := s.Enqueue(s.t.Context(), job.Params{Type: long + "z"})
		ensure(s.t, err != nil, "a longer one is refused")
		_, err = s.Enqueue(s.t.Context(), job.Params{Type: "*"})
		ensure(s.t, err != nil, "the type for all types is refused")
	})
}
