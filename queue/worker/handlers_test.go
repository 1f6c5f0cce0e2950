package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// TestHandlersThatChangeTheirJobs: handlers' and retry handlers' changes to a job don't affect the worker's own copy.
func TestHandlersThatChangeTheirJobs(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 4)
		spoil := func(j *job.Job) {
			switch j.ID {
			case ids[0]:
				j.Token = ""
			case ids[1]:
				j.ID = ids[2]
			case ids[2]:
				j.Attempt = 7
			default:
				*j = job.Job{}
			}
		}
		p := asking(only(s.emails, s.worker(all(func(_ context.Context, j *job.Job) error {
			defer spoil(j)
			if j.ID == ids[0] {
				return errors.New("oh")
			}
			return nil
		}))), func(_ context.Context, j *job.Job, _ job.Outcome) (job.Decision, error) {
			spoil(j)
			return job.Decision{}, nil
		})
		p.Ended = func(a worker.Attempt) { spoil(a.Job) }
		wantSummary(s.t, s.work(p), worker.Summary{Started: 4, Finished: 3, Errors: 1})
		for _, id := range ids {
			j := s.get(s.emails, id)
			dbtest.Ensure(s.t, j.State() == job.Final, "job %d is %s", id, j.State())
		}
	})
}

// TestOutcomesThatCannotBeStored: invalid or very long texts of an outcome, or no valid verdict, don't end the worker.
func TestOutcomesThatCannotBeStored(t *testing.T) {
	suite(t, func(s shop) {
		for says, o := range map[string]job.Outcome{
			"a\uFFFDb\uFFFD":                    {Verdict: job.Failed, Error: "a\xffb\x00", Output: "\xff\xff"},
			"longlong":                          {Verdict: job.Failed, Error: strings.Repeat("long", 10<<20), Output: strings.Repeat("\uFFFD", 10<<20)},
			`verdict "" is not one of`:          {Output: "\uFFFD"},
			`["finished" "retry" "failed" "sen`: {Verdict: "ok", Output: "\uFFFD"},
			"its error: a\uFFFD":                {Verdict: "done", Error: "a\xff", Output: "\uFFFD", Result: "\xff"},
			"result has 2097152 bytes; the max": {Verdict: job.Finished, Output: "\uFFFD", Result: strings.Repeat("r", 2<<20)},
		} {
			id := s.add(s.emails, "once", 1)[0]
			p := only(s.emails, s.worker(all(nothing)))
			p.Middleware = []handler.Middleware{func(handler.Handler) handler.Handler {
				return handler.HandleFunc(func(context.Context, *job.Job) job.Outcome { return o })
			}}
			wantSummary(s.t, s.work(p), worker.Summary{Started: 1, Errors: 1})
			list := s.outcomes(s.emails, id)
			dbtest.Ensure(s.t, len(list) == 1 && strings.Contains(list[0].Error, says) && strings.HasPrefix(list[0].Output, "\uFFFD"), "%s: %.200v", says, list)
		}
	})
}

// TestContextEndsWithTheHandler: a handler's context has the deadline, and ends when the handler returns, used or not.
func TestContextEndsWithTheHandler(t *testing.T) {
	suite(t, func(s shop) {
		s.addJobs(s.emails, job.Params{Type: "once", Timeout: time.Hour}, job.Params{Type: "once", Key: "unasked"})
		kept, unasked := context.Context(nil), context.Context(nil)
		s.work(only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			if j.Key == "unasked" {
				unasked = ctx
				return nil
			}
			kept = ctx
			if until, ok := ctx.Deadline(); !ok || time.Until(until) > time.Hour || time.Until(until) < time.Minute || ctx.Err() != nil {
				s.t.Errorf("it ends at %s, %v: %v", until, ok, ctx.Err())
			}
			return nil
		}))))
		receive(s.t, "the end of the context", kept.Done())
		receive(s.t, "the end of the other", unasked.Done())
		dbtest.Ensure(s.t, errors.Is(kept.Err(), context.Canceled) && errors.Is(unasked.Err(), context.Canceled),
			"they have ended with %v and %v", kept.Err(), unasked.Err())
	})
}

// TestHandlersThatGoOn: handlers that ignore their context delay neither the worker nor other jobs beyond the grace; the log
// names them. While they go on, no worker in this process runs their jobs again.
func TestHandlersThatGoOn(t *testing.T) {
	suite(t, func(s shop) {
		release := make(chan struct{})
		defer func() {
			if s.t.Failed() {
				close(release)
			}
		}()
		ids := s.addJobs(s.emails, job.Params{Type: "later", Timeout: time.Second}, job.Params{Type: "later", Timeout: time.Second},
			job.Params{Type: "later"}, job.Params{Type: "once"})
		p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			if j.ID != ids[3] && j.Attempt == 1 {
				fmt.Fprintln(handler.Output(ctx), "begun")
				<-release
				fmt.Fprintln(handler.Output(ctx), "too late")
			}
			return nil
		})))
		var log journal
		p.Concurrency, p.Grace, p.Log = 2, 100*time.Millisecond, log.log()
		r := s.stay(p)
		eventually(s.t, "the third and the fourth have the slots of the first two", func() bool {
			return s.get(s.emails, ids[2]).State() == job.Running && s.get(s.emails, ids[3]).State() == job.Final
		})
		r.stop()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 4, Finished: 1, Errors: 3})
		for i, cause := range []string{"timeout after 1s", "timeout after 1s", "interrupted"} {
			s.wantJob(s.emails, ids[i], job.Retry, job.StatusScheduled, cause+"; the handler still runs", 1)
			list := s.outcomes(s.emails, ids[i])
			dbtest.Ensure(s.t, len(list) == 1 && list[0].Output == "begun\n", "the activity: %+v", list)
		}
		n := log.count(`still runs although its context has ended" queue=emails job=`)
		dbtest.Ensure(s.t, n == 3, "said %d times", n)

		p.ID = ""
		again := func(id int64) worker.Summary { return dbtest.Must(worker.RunJob(s.t.Context(), p, id))(s.t) }
		wantSummary(s.t, again(ids[0]), worker.Summary{Started: 1, Errors: 1})
		s.wantJob(s.emails, ids[0], job.Final, "failed", "not started: the handler of attempt 1 still runs in this process", 2)
		close(release)
		eventually(s.t, "the second's handler returns", func() bool { _, goesOn := (*store.Queue)(s.emails).Abandoned().Load(ids[1]); return !goesOn })
		wantSummary(s.t, again(ids[1]), worker.Summary{Started: 1, Finished: 1})
		s.wantHistory(s.emails, atSecond, ids[1])
	})
}

// TestStraysAreKilledFirst: dead workers' processes on this host are killed before their jobs start again. Their rows may
// name another host, because hosts may share processes. An unknown worker may belong to another instance, and be alive.
func TestStraysAreKilledFirst(t *testing.T) {
	dbtest.SkipIf(t, runtime.GOOS != "linux", "other processes can't be seen here")
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 3)
		const ours, theirs, unknown = 0, 1, 2
		var dead [3]string
		strays := map[int64]int{}
		for i, id := range ids {
			dead[i] = uuid.NewString()
			s.die(s.emails, dead[i], 1)
			strays[id] = s.stray(dead[i])
		}
		s.exec("UPDATE shop_workers SET host = 'there' WHERE id = ?", dead[theirs])
		s.exec("DELETE FROM shop_workers WHERE id = ?", dead[unknown])
		p := s.worker(all(func(_ context.Context, j *job.Job) error {
			lives := dbtest.Alive(strays[j.ID])
			dbtest.Ensure(s.t, lives == (j.ID == ids[unknown]), "job %d of %d is started again, and the stray of its worker lives: %t", j.ID, ids, lives)
			return nil
		}))
		p.Unkilled = func(id string, processes []string) { s.t.Errorf("not killed, of %s: %q", id, processes) }
		s.work(p)
		s.wantHistory(s.emails, atSecond, ids...)
	})
}

// stray returns a leftover process of a worker's handler, with the worker's ID in its environment.
func (s shop) stray(workerID string) (pid int) {
	s.t.Helper()
	out := dbtest.Must(exec.Command("sh", "-c", `HIPQ_WORKER_ID="$0" sleep 60 >/dev/null 2>&1 & echo $!`, workerID).Output())(s.t)
	pid = dbtest.Must(strconv.Atoi(strings.TrimSpace(string(out))))(s.t)
	s.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	dbtest.Eventually(s.t, "the stray", func() bool { return process.HasInEnvironment(pid, "HIPQ_WORKER_ID="+workerID) })
	return pid
}

// stuck is a handler and retry handler that can't end what it runs, or that ignores the end of its context.
type stuck struct {
	through          chan struct{}
	decides, ignores bool
}

func (h stuck) Handle(ctx context.Context, _ *job.Job) job.Outcome {
	if h.decides {
		return job.Outcome{Verdict: job.TryAgain, Error: "no luck"}
	}
	h.disown(ctx)
	return job.Outcome{Verdict: job.Finished}
}

func (h stuck) Decide(ctx context.Context, _ *job.Job, _ job.Outcome) (job.Decision, error) {
	h.disown(ctx)
	return job.Decision{Again: true}, nil
}

func (h stuck) disown(ctx context.Context) {
	fmt.Fprint(handler.Output(ctx), "printed")
	<-ctx.Done()
	if !h.ignores {
		handling.End(ctx, job.Outcome{Verdict: job.TryAgain, Error: context.Cause(ctx).Error() + "; the handler still runs", Output: "printed"})
	}
	<-h.through
}

// TestAttemptIsDisowned: if a handler doesn't return, its attempt is settled when the handler disowns it or the grace is
// over. It frees its slot, and the later outcome is ignored.
func TestAttemptIsDisowned(t *testing.T) {
	suite(t, func(s shop) {
		for _, ignores := range []bool{false, true} {
			first, outcome := s.disown(stuck{through: make(chan struct{}), ignores: ignores})
			const want = "timeout after 1s; the handler still runs"
			dbtest.Ensure(s.t, first.State() == job.Final && first.Error == want && outcome.Error == want && outcome.Output == "printed",
				"ignores %t: job %+v, activity %+v", ignores, first, outcome)
		}
	})
}

// TestAttemptIsDisownedBehindAProgram: the same holds if middleware goes on after its program has ended in time.
func TestAttemptIsDisownedBehindAProgram(t *testing.T) {
	suite(t, func(s shop) {
		const grace = 100 * time.Millisecond
		stream := &handler.Stream{Program: handler.Program{Argv: []string{"sleep", "60"}, Grace: grace}}
		defer stream.Close()
		for kind, h := range map[string]handler.Handler{
			"exec":   &handler.Exec{Program: handler.Program{Argv: []string{"sleep", "60"}, Grace: grace}},
			"stream": stream,
		} {
			id := s.addJobs(s.emails, job.Params{Type: "once", Timeout: time.Second})[0]
			through := make(chan struct{})
			p := only(s.emails, s.worker(map[string]handler.Handler{"once": h}))
			p.Grace = grace
			p.Middleware = []handler.Middleware{func(next handler.Handler) handler.Handler {
				return handler.HandleFunc(func(ctx context.Context, j *job.Job) job.Outcome {
					fmt.Fprint(handler.Output(ctx), "printed")
					o := next.Handle(ctx, j)
					select {
					case <-through:
					case <-time.After(patience / 4):
					}
					return o
				})
			}}
			wantSummary(s.t, s.work(p), worker.Summary{Started: 1, Errors: 1})
			close(through)
			const want = "timeout after 1s; the handler still runs"
			if j, o := s.get(s.emails, id), s.outcomes(s.emails, id)[0]; j.State() != job.Final || j.Error != want || o.Output != "printed" {
				s.t.Errorf("%s: job %+v, activity %+v", kind, j, o)
			}
		}
	})
}

// TestDecisionIsDisowned: an abandoned decision is the policy's.
func TestDecisionIsDisowned(t *testing.T) {
	suite(t, func(s shop) {
		for _, ignores := range []bool{false, true} {
			first, outcome := s.disown(stuck{make(chan struct{}), true, ignores})
			if first.State() != job.Final || first.Error != "no luck" || !strings.Contains(outcome.Error, "timeout after 1s; the handler still runs") {
				s.t.Errorf("ignores %t: job %+v, activity %+v", ignores, first, outcome)
			}
		}
	})
}

// disown runs a stuck job, and then another in the same slot. It returns the first and its outcome.
func (s shop) disown(h stuck) (*job.Job, activity.Entry) {
	s.t.Helper()
	first := s.addJobs(s.emails, job.Params{Type: "once", Timeout: time.Second})[0]
	second := s.add(s.emails, "send", 1)[0]
	p := only(s.emails, s.worker(map[string]handler.Handler{"once": h, "send": handler.Func(nothing)}))
	p.Concurrency, p.Grace = 1, 100*time.Millisecond
	if h.decides {
		p.Queues[0].RetryHandlers = map[string]handler.RetryHandler{"once": h}
	}
	done := s.work(p)
	close(h.through)
	wantSummary(s.t, done, worker.Summary{Started: 2, Finished: 1, Errors: 1})
	s.wantHistory(s.emails, "added/0 starting/1 failed/1", first)
	s.wantHistory(s.emails, atOnce, second)
	return s.get(s.emails, first), s.outcomes(s.emails, first)[0]
}

// TestLogTellsWhatWasDecided: handler.Log says what the worker stored, after the policy and the retry handler, also one
// that failed, as Log says.
func TestLogTellsWhatWasDecided(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.addJobs(s.emails, job.Params{Type: "once", Data: "error"}, job.Params{Type: "once", Data: "fine"}, job.Params{Type: "once", Data: "sent"},
			job.Params{Type: "once", Data: "never"}, job.Params{Type: "later", Data: "error"}, job.Params{Type: "send", Data: "error"})
		j := &journal{}
		p := only(s.emails, s.worker(all(func(_ context.Context, j *job.Job) error {
			return map[string]error{"error": errors.New("busy"), "sent": handler.ErrSent, "never": handler.DoNotRetry(errors.New("no"))}[j.Data]
		})))
		p.Queues[0].RetryHandlers = map[string]handler.RetryHandler{"send": handler.RetryFunc(func(context.Context, *job.Job, job.Outcome) (job.Decision, error) {
			return job.Decision{}, errors.New("undecided")
		})}
		p.Middleware, p.Log = []handler.Middleware{handler.Log(j.debug())}, j.debug()
		s.work(p)
		j.mu.Lock()
		defer j.mu.Unlock()
		var numbers []string // a cluster's ids lie apart
		for i, id := range ids {
			numbers = append(numbers, fmt.Sprintf("job_id=%d ", id), fmt.Sprintf("job_id=%d ", i+1), fmt.Sprintf("job=%d ", id), fmt.Sprintf("job=%d ", i+1))
		}
		text := strings.NewReplacer(numbers...).Replace(j.text.String())
		for _, want := range []string{
			"ERROR msg=\"job failed for good\" queue=emails job_id=1 .* attempt=1 max_attempts=1 .*error=busy", "INFO msg=\"job finished\" .*job_id=2 ",
			"INFO msg=\"job sent\" .*job_id=3 ", "ERROR msg=\"job failed for good\" .*job_id=4 ",
			"WARN msg=\"job will be retried\" .*job_id=5 .*attempt=1 max_attempts=2 .*retry_at=20", "WARN msg=\"job will be retried\" .*job_id=6 .*attempt=2 max_attempts=3 ",
			"ERROR msg=\"job failed for good\" .*job_id=6 .*attempt=3 ", "WARN msg=\"a retry handler failed, so the policy decides\" .*job=6 .*attempt=1 error=undecided",
		} {
			dbtest.Ensure(s.t, regexp.MustCompile(want).MatchString(text), "no %s in %s", want, text)
		}
	})
}
