package handler_test

import (
	"slices"
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
		"a second program, which takes as long again": {strings.ReplaceAll(answers(ready), "done", "exit; done"), 0, [][]int{{100}, {160, 100}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shStream(t, c.script)
			s.StartTimeout = c.start
			one, two := jobOf(1, task{}), jobOf(2, task{})
			one.Timeout, two.Timeout = 100*time.Second, 100*time.Second
			list, moves := moved(t, s, one, two)
			for i, o := range list {
				dbtest.Ensure(t, o.Verdict == job.Finished && slices.Equal(moves[i], c.moves[i]), "job %d: %s %q, moved %v", i+1, o.Verdict, o.Error, moves[i])
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
		dbtest.Ensure(t, o.Verdict == job.TryAgain && o.Error == "the program was not ready within 300ms", "%+v", o)
	}
	o := within(t, s, testJob(), time.Minute) // like any program that ends without an answer
	dbtest.Same(t, o.Error, "not started: the last 2 programs ended without an answer, the latest with: the program was not ready within 300ms", "at the third")
	s = shStream(t, answers(`echo '{"ready": true}'`))
	s.StartTimeout = 5 * time.Second
	for range 2 {
		wantFinished(t, within(t, s, testJob(), time.Minute))
		time.Sleep(3 * time.Second)
	}
}
