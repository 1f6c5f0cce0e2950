package store_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// claim starts up to n jobs of one type, in the shard that these tests use.
func (s env) claim(worker, jobType string, n int) store.Done {
	s.t.Helper()
	s.hire(worker)
	shard := 0
	if s.Shards > 1 {
		shard = 3
	}
	return s.doWith(s.core().Candidates(shard, []string{jobType}), worker, n)
}

// firsts runs a test about the first waiting job in a queue with a limit of 4, undivided and divided. One light job of type
// send runs. Behind it wait one of type report that needs the whole limit, and three more light ones.
func firsts(t *testing.T, test func(s env, running []*job.Job, heavy int64)) {
	t.Helper()
	suites(t, map[string]func(*queue.Options){"one": func(o *queue.Options) { o.ThrottleLimit = 4 }, "eight": inEight(4)}, func(s env) {
		of := func(jobType string, weight int) job.Params {
			j := job.Params{Type: "send"}
			if s.Shards > 1 {
				j = s.goingTo(3, 1, weight)[0]
			}
			j.Type, j.ThrottleFactor = jobType, &weight
			return j
		}
		s.add(of("send", 1))
		running := s.claim("w", "send", 1).Started
		heavy := s.add(of("report", 4))[0].ID
		s.add(of("send", 1), of("send", 0), of("send", 1))
		if s.claim("w", "report", 1); s.Shards > 1 {
			s.divided()
			s.claim("w", "report", 1)
		}
		require(s.t, len(running) == 1 && s.get(heavy).State() == job.Initial, "%d are running", len(running))
		test(s, running, heavy)
	})
}

// wantClaimed expects a claim of the light jobs to start so many, including weightless ones.
func (s env) wantClaimed(want int) {
	s.t.Helper()
	equal(s.t, len(s.claim("other", "send", 9).Started), want, "light jobs were started")
}

// No job with weight overtakes the first one without room, whichever types others ask for.
func TestFirstIsNotOvertaken(t *testing.T) {
	firsts(t, func(s env, running []*job.Job, heavy int64) {
		s.wantClaimed(1) // it weighs nothing
		s.wantClaimed(0)
		s.settle("w", finished, running...)
		s.wantClaimed(0)
		s.divided()
		got := s.claim("w", "report", 1).Started
		require(t, len(got) == 1 && got[0].ID == heavy, "%d were started", len(got))
		s.wantClaimed(0)
		s.settle("w", finished, s.get(heavy))
		s.divided()
		s.wantClaimed(2)
	})
}

// A job before it in order isn't blocked.
func TestFirstHoldsUpNoneBeforeIt(t *testing.T) {
	firsts(t, func(s env, _ []*job.Job, _ int64) {
		j := job.Params{Type: "send", Priority: new(1)}
		if s.Shards > 1 {
			j.ShardKey = s.goingTo(3, 1, 1)[0].ShardKey
		}
		id := s.add(j)[0].ID
		s.wantClaimed(2)
		equal(t, s.get(id).State(), job.Running, "the one before it")
	})
}

// It blocks no job once it stops waiting, its queue has room, or no worker has asked for its type for a while.
func TestFirstThatIsGone(t *testing.T) {
	parallel(t)
	for name, goes := range map[string]func(s env, heavy int64){
		"cancelled": func(s env, heavy int64) { must[any](s.t)(nil, s.Cancel(s.t.Context(), heavy)) },
		"later": func(s env, heavy int64) {
			s.exec("UPDATE shop_emails SET status = 'scheduled', wake_time = '2036-01-01 00:00:00.000000' WHERE id = ?", heavy)
		},
		"light": func(s env, heavy int64) { s.exec("UPDATE shop_emails SET throttle_factor = 0 WHERE id = ?", heavy) },
		"run by nobody": func(s env, heavy int64) {
			s.exec("UPDATE shop_emails SET asked_time = '2026-01-01 00:00:00.000000' WHERE id = ?", heavy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			firsts(t, func(s env, _ []*job.Job, heavy int64) {
				s.wantClaimed(1)
				goes(s, heavy)
				s.claim("other", "send", 9) // it finds too little in its shard
				s.divided()
				s.claim("other", "send", 9)
				s.wantClaimed(0)
				waits := value[int](s, "SELECT COUNT(*) FROM shop_emails WHERE status = 'available' AND job_type = 'send'")
				equal(t, waits, 0, "light jobs wait still")
			})
		})
	}
}

// A claim that finds it held back by something else than the limit lets other jobs pass.
func TestFirstBehindItsGroup(t *testing.T) {
	suiteWith(t, func(o *queue.Options) {
		o.ThrottleLimit = 3
		o.ThrottleGroups = &job.ThrottleGroups{By: "data.g", Limits: map[string]int{"a": 3}}
	}, func(s env) {
		s.hire("w")
		first := s.add(job.Params{Type: "send", Data: `{"g":"a"}`})
		s.claim("w", "send", 1)
		s.add(job.Params{Type: "report", Data: `{"g":"a"}`, ThrottleFactor: new(3)}, job.Params{Type: "send", Data: `{"g":"b"}`})
		s.claim("w", "report", 1)
		s.wantClaimed(1)
		equal(t, s.get(first[0].ID).State(), job.Running, "it")
	})
}

// Each worker's first job without room, by its types, is noted. When the one before it starts, no job overtakes it.
func TestSecondIsNotOvertaken(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.ThrottleLimit = 4 }, func(s env) {
		s.add(job.Params{Type: "send", ThrottleFactor: new(4)})
		running := s.claim("w", "send", 1).Started
		s.add(job.Params{Type: "send"}, job.Params{Type: "report", ThrottleFactor: new(4)}, job.Params{Type: "send"})
		s.claim("w", "send", 9)
		require(t, len(s.claim("w", "report", 1).Started) == 0, "there was room")
		s.settle("w", finished, running...)
		s.wantClaimed(1)
		s.wantClaimed(0)
	})
}

// besideBusy lets shard 1 settle and start short jobs until shard 0 has started one. A shard in line for others' room gets
// it, whatever keeps running in it.
func (s env) besideBusy(running []*job.Job) {
	s.t.Helper()
	for until := time.Now().Add(20 * time.Second); len(s.in(0, 1).Started) == 0; {
		if time.Now().After(until) {
			s.t.Fatalf("shard 0 has started nothing: %+v", s.sums())
		}
		var ended []*job.Job
		if len(running) > 0 {
			ended, running = running[:1], running[1:]
		}
		running = append(running, s.in(1, 9, ended...).Started...)
		s.divided()
	}
}

// A job that runs for days blocks no other of its shard while jobs of other shards end.
func TestBesideALongJob(t *testing.T) {
	suiteWith(t, inEight(2), func(s env) {
		s.add(append(s.goingTo(0, 2, 1), s.goingTo(1, 900, 1)...)...)
		s.shared(0, 1, 1)
		s.besideBusy(s.shared(1, 1, 1))
	})
}

// The same holds for a job heavier than its shard's share in place of the long one.
func TestHeavyBesideALongJob(t *testing.T) {
	suiteWith(t, inEight(8), func(s env) {
		s.add(s.goingTo(0, 1, 3)...)
		s.shared(0, 1, 1)
		s.add(append(s.goingTo(0, 1, 5), s.goingTo(1, 900, 1)...)...)
		s.besideBusy(s.shared(1, 5, 5))
	})
}
