package conformance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// shop has a queue for each kind, named after it, on a real database.
type shop struct {
	*testing.T
	db       *schema.DB
	queues   map[string]*queue.Queue
	speakers map[string]speaker
	params   worker.Params
}

// end is the expected state and error of a job, and from the activity how each of its attempts ended.
type end struct {
	state   job.State
	error   string
	history string
}

// attempts are what a worker makes of running jobs when something happens to it or to them, the same for each kind. do
// is called when they run, and the worker has ended when it returns.
var attempts = []struct {
	name string
	say  words
	// timeout is the job's; 0 means long.
	timeout time.Duration
	do      func(s *shop, at *attempt)
	want    end
	except  map[string]end
}{
	{name: "timeout", say: words{Hangs: true}, timeout: time.Second, do: (*shop).nothing, want: end{job.Retry, "timeout after 1s", "error"}},
	{
		name: "timeout of a deaf one", say: words{Hangs: true, Deaf: true}, timeout: time.Second, do: (*shop).nothing,
		want: end{job.Retry, "timeout after 1s", "error"},
		except: map[string]end{
			"func": {job.Retry, "timeout after 1s; the handler still runs", "error"}, // a goroutine can't be ended
			"exec": {job.Retry, "timeout after 1s" + ignored, "error"},
		},
	},
	{
		name: "release", say: words{Verdict: job.Released, After: 3600}, timeout: time.Minute, do: (*shop).nothing,
		want: end{job.Retry, job.None, "released"},
	},
	{
		name: "released, then cancelled", say: words{Hangs: true, Late: true, Verdict: job.Released}, do: (*shop).cancel,
		want: end{job.Final, "cancelled", "failed"},
	},
	{
		name: "finished after its timeout", say: words{Hangs: true, Late: true}, timeout: time.Second, do: (*shop).nothing,
		want:   end{job.Final, job.None, "finished"},
		except: map[string]end{"http": {job.Retry, "timeout after 1s", "error"}}, // its request is closed
	},
	{
		name: "released after its timeout", say: words{Hangs: true, Late: true, Verdict: job.Released}, timeout: time.Second, do: (*shop).nothing,
		want: end{job.Retry, "timeout after 1s", "error"},
	},
	{
		name: "failed after its timeout", say: words{Hangs: true, Late: true, Verdict: job.TryAgain, Error: []byte("busy")}, timeout: time.Second,
		do: (*shop).nothing, want: end{job.Retry, "timeout after 1s", "error"},
	},
	{
		name: "given up after its timeout", say: words{Hangs: true, Late: true, Verdict: job.Failed, Error: []byte("too slow")}, timeout: time.Second,
		do: (*shop).nothing, want: end{job.Final, "too slow", "failed"},
		except: map[string]end{"http": {job.Retry, "timeout after 1s", "error"}},
	},
	{
		name: "given up after the worker's SIGTERM", say: words{Hangs: true, Late: true, Verdict: job.Failed, Error: []byte("no")}, do: (*shop).interrupt,
		want:   end{job.Final, "no", "failed"},
		except: map[string]end{"http": {job.Retry, "interrupted", "error"}},
	},
	{
		name: "failed after the worker's SIGTERM", say: words{Hangs: true, Late: true, Verdict: job.TryAgain, Error: []byte("busy")}, do: (*shop).interrupt,
		want: end{job.Retry, "interrupted", "error"},
	},
	{
		name: "given up after it was cancelled", say: words{Hangs: true, Late: true, Verdict: job.Failed, Error: []byte("no")}, do: (*shop).cancel,
		want: end{job.Final, "cancelled", "failed"},
	},
	{
		name: "finished after the worker's SIGTERM", say: words{Hangs: true, Late: true}, do: (*shop).interrupt,
		want:   end{job.Final, job.None, "finished"},
		except: map[string]end{"http": {job.Retry, "interrupted", "error"}},
	},
	{
		name: "released after the worker's SIGTERM", say: words{Hangs: true, Late: true, Verdict: job.Released}, do: (*shop).interrupt,
		want:   end{job.Retry, job.None, "released"},
		except: map[string]end{"http": {job.Retry, "interrupted", "error"}},
	},
	{
		name: "finished after it was cancelled", say: words{Hangs: true, Late: true}, do: (*shop).cancel,
		want:   end{job.Final, job.None, "finished"},
		except: map[string]end{"http": {job.Final, "cancelled", "failed"}},
	},
	{
		name: "cancel", say: words{Hangs: true, Progress: 40, Note: []byte("🙂")}, do: (*shop).cancel,
		want: end{job.Final, "cancelled", "failed"},
	},
	{name: "cancel of a deaf one", say: words{Hangs: true, Deaf: true}, do: (*shop).cancel, want: end{job.Final, "cancelled", "failed"}},
	{name: "SIGTERM of the worker", say: words{Hangs: true}, do: (*shop).interrupt, want: end{job.Retry, "interrupted", "error"}},
	{
		name: "SIGTERM of the worker of a deaf one", say: words{Hangs: true, Deaf: true}, do: (*shop).interrupt,
		want: end{job.Retry, "interrupted", "error"},
		except: map[string]end{
			"func": {job.Retry, "interrupted; the handler still runs", "error"}, "exec": {job.Retry, "interrupted" + ignored, "error"},
		},
	},
	{
		name: "lost lock", say: words{Hangs: true, Result: []byte("second")}, do: (*shop).loseLock,
		want: end{job.Final, job.None, "error finished"},
	},
}

// attempt is a worker that has a running job of each kind.
type attempt struct {
	worker string
	stop   context.CancelFunc
	jobs   map[string]int64
	// done gets the worker's error.
	done chan error
}

func TestKindsInAWorker(t *testing.T) {
	for _, c := range attempts {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, driver, source string) {
				t.Parallel()
				s := newShop(t, driver, source)
				lockFor := s.params.LockFor
				if c.name == "lost lock" {
					lockFor = 9 * time.Second // it finds out when it renews its lock
				}
				if c.say.Late {
					s.patient()
				}
				at := s.start(c.say, c.timeout, lockFor)
				c.do(s, at)
				for name, id := range at.jobs {
					w, ok := c.except[name]
					if !ok {
						w = c.want
					}
					s.wantEnd(name, id, w)
				}
				for name, one := range s.speakers {
					left := one.left()
					dbtest.Ensure(t, len(left) == 0, "%s: processes are left: %d", name, left)
				}
			})
		})
	}
}

// TestKindsInTheTables: the tables hold reports unchanged.
func TestKindsInTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		t.Parallel()
		s := newShop(t, driver, source)
		jobs := map[string][]int64{}
		for name := range s.queues {
			for _, w := range []words{
				{Text: mebibyte, Digest: true, Log: []byte("🙂\x00\xff\n")},
				{Verdict: job.Failed, Error: []byte("🙂\x00\xff")},
				{Verdict: job.TryAgain, Error: []byte("busy"), After: 86400},
				{Verdict: job.Sent, Result: []byte("ticket \x005")},
				{Fill: 1<<20 - 200},
			} {
				jobs[name] = append(jobs[name], s.add(name, w, 0))
			}
		}
		dbtest.Must(worker.Run(t.Context(), s.params))(t)
		for name, ids := range jobs {
			s.wantEnd(name, ids[0], end{job.Final, job.None, "finished"})
			s.wantEnd(name, ids[1], end{job.Final, "🙂\uFFFD\uFFFD", "failed"})
			s.wantEnd(name, ids[2], end{job.Retry, "busy", "error"})
			s.wantEnd(name, ids[3], end{job.Running, job.None, ""})
			s.wantEnd(name, ids[4], end{job.Final, job.None, "finished"})
			for i, result := range map[int]string{0: digest(mebibyte), 1: job.None, 3: "ticket \uFFFD5", 4: strings.Repeat("x", 1<<20-200)} {
				j := s.get(name, ids[i])
				dbtest.Ensure(t, j.Result == result, "%s: the result of job %d is %.100q, want %.100q", name, ids[i], j.Result, result)
			}
			j := s.get(name, ids[2])
			dbtest.Ensure(t, j.ScheduledRunTime.Sub(j.UpdateTime) >= 23*time.Hour, "%s: it is tried again at %s", name, j.ScheduledRunTime)
			out := s.ends(name, ids[0])[0].Output
			dbtest.Ensure(t, strings.HasPrefix(out, "🙂\uFFFD\uFFFD\n"), "%s: kept is %.100q", name, out)
		}
	})
}

func newShop(t *testing.T, driver, source string) *shop {
	s := &shop{T: t, queues: map[string]*queue.Queue{}, speakers: map[string]speaker{}}
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	s.db = dbtest.Open(t, driver, source, names...)
	say := job.DefaultType("say")
	say.Retry = job.RetryPolicy{Attempts: 2, Delay: time.Hour, Backoff: job.Fixed}
	for _, k := range kinds {
		q := dbtest.Must(queue.Open(t.Context(), s.db, queue.Options{Name: k.name, Types: []job.Type{say}}))(t)
		s.queues[k.name], s.speakers[k.name] = q, k.open(t)
		s.params.Queues = append(s.params.Queues, worker.Queue{Queue: q, Handlers: map[string]handler.Handler{"say": s.speakers[k.name]}})
	}
	s.params.Options = worker.Options{Concurrency: 2 * len(kinds), Grace: grace, LockFor: time.Minute, RunFor: 2 * patience}
	return s
}

// patient gives programs the time that a busy machine needs between TERM and KILL.
func (s *shop) patient() {
	for _, one := range s.speakers {
		switch h := one.Handler.(type) {
		case *handler.Exec:
			h.Grace = patience
		case *handler.Stream:
			h.Grace = patience
		}
	}
}

// add enqueues a job for a kind.
func (s *shop) add(name string, w words, timeout time.Duration) int64 {
	s.Helper()
	added := dbtest.Must(s.queues[name].Enqueue(s.Context(), job.Params{Type: "say", Data: w.data(), Timeout: timeout}))(s)
	return added.ID
}

// start starts a worker, and waits until it runs a job of each kind. A job with a timeout may already be over.
func (s *shop) start(w words, timeout, lockFor time.Duration) *attempt {
	s.Helper()
	at := &attempt{jobs: map[string]int64{}, done: make(chan error, 1)}
	dir := s.TempDir()
	for name := range s.queues {
		w.Begun = filepath.Join(dir, name)
		at.jobs[name] = s.add(name, w, timeout)
	}
	p := s.params
	p.LockFor = lockFor
	p.ID = uuid.NewString()
	at.worker = p.ID
	ctx, stop := context.WithCancel(s.Context())
	at.stop = stop
	go func() {
		_, err := worker.Run(ctx, p)
		at.done <- err
	}()
	if timeout > 0 {
		return at
	}
	for name := range s.queues {
		s.eventually(name+" runs", func() bool { return isThere(filepath.Join(dir, name)) })
		s.eventually(name+" is so far", func() bool { return s.get(name, at.jobs[name]).Progress.Percent == w.Progress })
	}
	return at
}

// ended waits for the end of the worker.
func (s *shop) ended(at *attempt) error {
	s.Helper()
	defer at.stop()
	select {
	case err := <-at.done:
		return err
	case <-time.After(patience):
		s.Fatalf("the worker hasn't ended in %s", patience)
		return nil
	}
}

// nothing waits for the worker's end.
func (s *shop) nothing(at *attempt) { dbtest.Same(s, s.ended(at), nil) }

func (s *shop) cancel(at *attempt) {
	for name, id := range at.jobs {
		_, err := admin.Of(s.queues[name]).Stop(s.Context(), id)
		dbtest.Ensure(s, err == nil, "%v", err)
	}
	s.nothing(at)
}

// interrupt does what a SIGTERM does.
func (s *shop) interrupt(at *attempt) {
	at.stop()
	s.nothing(at)
}

// loseLock declares the worker dead. Another worker then takes the jobs, and their second attempts succeed.
func (s *shop) loseLock(at *attempt) {
	err := s.db.SQL.Tx(s.Context(), func(tx *engine.Tx) error {
		_, err := tx.ExecContext(s.Context(), "UPDATE shop_workers SET state = 'error', slots = 0 WHERE id = ?", at.worker)
		return err
	})
	dbtest.OK(s, err)
	if err := s.ended(at); !errors.Is(err, worker.ErrLockLost) {
		s.Errorf("the worker ends with %v", err)
	}
	if _, err := worker.Run(s.Context(), s.params); err != nil { // it reports that they were lost
		s.Error(err)
	}
	for name, id := range at.jobs {
		p := s.params
		for _, q := range s.params.Queues {
			if q.Name == name {
				p.Queues = []worker.Queue{q}
			}
		}
		if !s.get(name, id).Status.IsFinal() { // a lost job ran again at once; one that its worker gave back waits
			_, err := worker.RunJob(s.Context(), p, id)
			dbtest.Ensure(s, err == nil, "%s: %v", name, err)
		}
		j := s.get(name, id)
		dbtest.Ensure(s, j.Result == "second", "%s: the result is %q", name, j.Result)
	}
}

func (s *shop) get(name string, id int64) *job.Job {
	s.Helper()
	j := dbtest.Must(s.queues[name].Get(s.Context(), id))(s)
	return j
}

// ends are the activity's entries about the ends of a job's attempts.
func (s *shop) ends(name string, id int64) (list []activity.Entry) {
	s.Helper()
	dbtest.OK(s, activity.New(s.db).Find(s.Context(), activity.Filter{Kind: activity.Job, Queue: name, JobID: id}, func(e activity.Entry) error {
		if e.State != activity.Added && e.State != activity.Starting {
			list = append(list, e)
		}
		return nil
	}))
	return list
}

func (s *shop) wantEnd(name string, id int64, w end) {
	s.Helper()
	var states []string
	for _, e := range s.ends(name, id) {
		if e.State != activity.Stopping { // the test asked for it
			states = append(states, string(e.State))
		}
	}
	if j := s.get(name, id); j.State() != w.state || j.Error != w.error || strings.Join(states, " ") != w.history {
		s.Errorf("%s: job %d is %s with the error %.200q after %s; want %s, %q, %s", name, id, j.State(), j.Error, fmt.Sprint(states), w.state, w.error, w.history)
	}
}

// eventually waits until ok.
func (s *shop) eventually(what string, ok func() bool) {
	s.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			s.Fatalf("not in %s: %s", patience, what)
		}
	}
}
