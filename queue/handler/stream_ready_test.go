package handler_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// answers is a script that answers each job after it has run a command.
func answers(command string) string {
	return command + `; while read -r line; do id=${line#*'"id":'}; echo "{\"id\":${id%%,*},\"outcome\":\"finished\"}"; done`
}

// moved runs jobs one after the other, and returns how each moved the end of its time, in whole seconds.
func moved(t *testing.T, s *handler.Stream, jobs ...*job.Job) (list []job.Outcome, moves [][]int) {
	t.Helper()
	for _, j := range jobs {
		var mu sync.Mutex
		seconds := []int{}
		ctx := handling.With(t.Context(), handling.Hooks{Expire: func(in time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			seconds = append(seconds, int(in.Round(10*time.Second).Seconds()))
		}})
		list = append(list, s.Handle(ctx, j))
		moves = append(moves, seconds)
	}
	return list, moves
}

// TestStreamReady: a job's timeout begins when its program is ready.
func TestStreamReady(t *testing.T) {
	t.Parallel()
	const ready = `echo '{"ready": true}'`
	for name, c := range map[string]struct {
		script string
		start  time.Duration
		moves  [][]int
		output string
	}{
		"a program that announces itself":             {answers(ready), 0, [][]int{{100}, {}}, ""},
		"within the time of the config":               {answers(ready), 1000 * time.Second, [][]int{{1100, 100}, {}}, ""},
		"one that only answers, within that time":     {answers("true"), 1000 * time.Second, [][]int{{1100, 100}, {}}, ""},
		"one that never does":                         {answers("true"), 0, [][]int{{}, {}}, ""},
		"twice":                                       {answers(ready + ";" + ready), 0, [][]int{{100}, {}}, ""},
		"a log line":                                  {answers(`echo '{"ready": true, "at": 1}'`), 0, [][]int{{}, {}}, "{\"ready\": true, \"at\": 1}\n"},
		"not ready":                                   {answers(`echo '{"ready": false}'`), 0, [][]int{{}, {}}, "{\"ready\": false}\n"},
		"a second program, which takes as long again": {strings.ReplaceAll(answers("sleep 1; "+ready), "done", "exit; done"), 0, [][]int{{100}, {160, 100}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shStream(t, c.script)
			s.StartTimeout = c.start
			one, two := jobOf(1, task{}), jobOf(2, task{})
			one.Timeout, two.Timeout = 100*time.Second, 100*time.Second
			list, moves := moved(t, s, one, two)
			for i, o := range list {
				early := i == 0 && len(moves[i]) == 0 && slices.Equal(c.moves[i], []int{100}) // it was ready before it got the job
				dbtest.Ensure(t, o.Verdict == job.Finished && (early || slices.Equal(moves[i], c.moves[i])), "job %d: %s %q, moved %v", i+1, o.Verdict, o.Error, moves[i])
			}
			dbtest.Same(t, list[0].Output, c.output, "its log")
		})
	}
}

// TestStreamNotReady: a program that isn't ready in time is ended, and its job is an error. One that is ready runs on.
func TestStreamNotReady(t *testing.T) {
	t.Parallel()
	s := shStream(t, "sleep 60")
	s.StartTimeout = 300 * time.Millisecond
	for range 2 {
		o := within(t, s, testJob(), time.Minute)
		dbtest.Ensure(t, (o.Verdict == job.NotBegun) == (runtime.GOOS == "linux") && o.Error == "the program was not ready within 300ms", "%+v", o)
	}
	o := within(t, s, testJob(), time.Minute) // like any program that ends without an answer
	dbtest.Same(t, o.Error, "not started: the last 2 programs ended without an answer, the latest with: the program was not ready within 300ms", "at the third")
	dbtest.Ensure(t, o.Verdict == job.NotBegun && o.RetryAfter > 0 && o.RetryAfter <= time.Second, "%+v", o)
	s = shStream(t, "")
	s.Argv = []string{t.TempDir() + "/none"} // or one that can't be started
	for range 3 {
		o := within(t, s, testJob(), time.Minute)
		dbtest.Ensure(t, o.Verdict == job.NotBegun && o.Error != "" && o.RetryAfter > 0, "%+v", o)
	}
	s = shStream(t, answers(`echo '{"ready": true}'`))
	s.StartTimeout = 5 * time.Second
	for range 2 {
		wantFinished(t, within(t, s, testJob(), time.Minute))
		time.Sleep(3 * time.Second)
	}
}

// TestStreamAhead: once jobs are short, the stream has room for more, which wait for the first program with room. Their timeouts
// begin there. The end of another job's program is none of theirs, and behind a long job they go back.
func TestStreamAhead(t *testing.T) {
	t.Parallel()
	s := stream(t, 1, 1)
	s.Ahead = 1
	for id := range int64(20) {
		dbtest.Ensure(t, id > 0 || s.Room() == 1, "room for %d before the first job", s.Room())
		wantFinished(t, within(t, s, jobOf(id+1, task{}), time.Minute))
	}
	dbtest.Same(t, s.Room(), 2, "room")
	behind := func(first task) (one, two job.Outcome, moves []int) {
		done := make(chan job.Outcome, 1)
		go func() { done <- within(t, s, jobOf(31, first), time.Minute) }()
		time.Sleep(200 * time.Millisecond)
		j := jobOf(32, task{})
		j.Timeout = 100 * time.Second
		list, moved := moved(t, s, j)
		return <-done, list[0], moved[0]
	}
	one, two, moves := behind(task{SleepMS: 600, Silent: true, Exit: new(3)})
	dbtest.Ensure(t, one.Verdict == job.TryAgain && two.Verdict == job.Finished && slices.Equal(moves, []int{100, 100}), "%+v\n%+v\nmoved %v", one, two, moves)
	dbtest.Ensure(t, two.Ran < 600*time.Millisecond, "it ran for %s", two.Ran)
	one, two, _ = behind(task{SleepMS: 3000})
	dbtest.Ensure(t, one.Verdict == job.Finished && two.Verdict == job.NotBegun && two.IsRelease(), "%+v\n%+v", one, two)
	dbtest.Same(t, s.Room(), 1, "room after a long job")
}

// TestStreamInOrder: jobs that wait for a program get it in the order in which they came.
func TestStreamInOrder(t *testing.T) {
	t.Parallel()
	first, all := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "all")
	s := shStream(t, `n=0; while read -r line; do n=$((n + 1)); >`+first+`; until [ -e `+all+` ]; do sleep 0.05; done; id=${line#*:}; id=${id%%,*}
		echo "{\"id\":$id,\"outcome\":\"finished\",\"result\":$n}"; done`)
	const jobs = 30
	var places [jobs]string
	var running sync.WaitGroup
	for i := range jobs {
		running.Go(func() { places[i] = s.Handle(t.Context(), jobOf(int64(i+1), task{})).Result })
		for _, err := os.Stat(first); err != nil || s.Waiting() != i; _, err = os.Stat(first) {
			time.Sleep(time.Millisecond)
		}
	}
	dbtest.OK(t, os.WriteFile(all, nil, 0o600))
	running.Wait()
	for i, place := range places {
		dbtest.Same(t, place, strconv.Itoa(i+1), "the place of job %d", i+1)
	}
}

// TestStreamRenews: a program gets no more jobs after max_jobs, above max_memory, or when a file has changed; the next job starts
// another.
func TestStreamRenews(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "REVISION")
	link := filepath.Join(t.TempDir(), "current")
	dbtest.OK(t, os.Symlink("one", link))
	for name, c := range map[string]struct {
		set    func(*handler.Stream)
		change func() error
		same   [3]bool // whether jobs 2, 3 and 4 have the program of the job before
	}{
		"never":               {func(*handler.Stream) {}, nil, [3]bool{true, true, true}},
		"max_jobs":            {func(s *handler.Stream) { s.MaxJobs = 2 }, nil, [3]bool{true, false, true}},
		"a file comes":        {func(s *handler.Stream) { s.RestartOn = []string{file} }, func() error { return os.WriteFile(file, nil, 0o600) }, [3]bool{true, false, true}},
		"a link goes on":      {func(s *handler.Stream) { s.RestartOn = []string{link} }, func() error { return errors.Join(os.Remove(link), os.Symlink(os.Args[0], link)) }, [3]bool{true, false, true}},
		"much memory":         {func(s *handler.Stream) { s.MaxMemory = 1 }, nil, [3]bool{}},
		"less than it may":    {func(s *handler.Stream) { s.MaxMemory = 1 << 40 }, nil, [3]bool{true, true, true}},
		"several at once too": {func(s *handler.Stream) { s.MaxJobs, s.InFlight = 2, 3 }, nil, [3]bool{true, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.SkipIf(t, runtime.GOOS != "linux" && name == "much memory", "only Linux tells the memory of another process")
			s := stream(t, 1, 1)
			c.set(s)
			var before string
			for i := range 4 {
				if i == 2 && c.change != nil {
					dbtest.OK(t, c.change())
				}
				o := within(t, s, jobOf(int64(i+1), task{}), time.Minute)
				wantFinished(t, o)
				if i > 0 {
					dbtest.Ensure(t, (o.Result == before) == c.same[i-1], "job %d runs in %s, the one before in %s", i+1, o.Result, before)
				}
				before = o.Result
			}
		})
	}
}

// TestPatternsOfEnv: PREFIX_* passes all variables that begin so, and * all but hipq's.
func TestPatternsOfEnv(t *testing.T) {
	t.Setenv("APP_ONE", "1")
	t.Setenv("APP_TWO", "2")
	t.Setenv("HIPQ_DATABASE_DSN", "secret")
	for pattern, want := range map[string]string{"APP_*": "1 2 ", "APP_T*": " 2 ", "*": "1 2 ", "HIPQ_D*": "  secret", "NOTHING*": "  "} {
		e := sh(`printf %s "$APP_ONE $APP_TWO $HIPQ_DATABASE_DSN"`)
		e.Env = []string{pattern}
		dbtest.Same(t, e.Handle(t.Context(), testJob()).Output, want, pattern)
	}
}
