package handler_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// task is what a job makes the program of these tests do, in this order.
type task struct {
	Log     string `json:"log,omitempty"`
	SleepMS int    `json:"sleep_ms,omitempty"`
	// Deaf makes it ignore TERM.
	Deaf bool `json:"deaf,omitempty"`
	// Say is what it prints, with ID and TOKEN replaced. By default it answers with its process ID as the result.
	Say string `json:"say,omitempty"`
	// Silent makes it print nothing.
	Silent bool `json:"silent,omitempty"`
	Close  bool `json:"close,omitempty"`
	// CloseIn makes it close its stdin, write its process ID to this file, and live for another minute.
	CloseIn string `json:"close_in,omitempty"`
	Exit    *int   `json:"exit,omitempty"`
}

// streamProgram is the program of a Stream in these tests. It runs jobs concurrently, unless told "single". "born FILE"
// writes a line to a file at the start; "stillborn" then ends, and "babbling" prints a broken line first.
func streamProgram(args []string) error {
	single := slices.Contains(args, "single")
	if at := slices.Index(args, "born"); at >= 0 {
		f, err := os.OpenFile(args[at+1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err = fmt.Fprintln(f, os.Getpid()); err != nil {
			return err
		}
		_ = f.Close()
	}
	if slices.Contains(args, "babbling") {
		fmt.Println("{ code: 'ENOENT' }")
	}
	if slices.Contains(args, "stillborn") {
		return errors.New("no such table: users")
	}
	in := bufio.NewReader(os.Stdin)
	if single { // don't buffer the next job's line, which must stay unread
		in = bufio.NewReader(iotest.OneByteReader(os.Stdin))
	}
	var doing sync.WaitGroup
	defer doing.Wait()
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if slices.Contains(args, "stays") {
				select {}
			}
			return nil
		}
		var j struct {
			ID    int64           `json:"id"`
			Token string          `json:"token"`
			Data  json.RawMessage `json:"job_data"`
		}
		if err := json.Unmarshal(line, &j); err != nil {
			return err
		}
		var do task
		_ = json.Unmarshal(j.Data, &do)
		work := func() { do.perform(j.ID, j.Token) }
		if single {
			work()
		} else {
			doing.Go(work)
		}
	}
}

var printing sync.Mutex

func (do task) perform(id int64, token string) {
	if do.Deaf {
		ignoreTerm()
	}
	fmt.Fprint(os.Stderr, do.Log)
	time.Sleep(time.Duration(do.SleepMS) * time.Millisecond)
	said := do.Say
	switch {
	case do.Silent:
	case said == "":
		said = `{"id":ID,"token":"TOKEN","outcome":"finished","result":"` + strconv.Itoa(os.Getpid()) + "\"}\n"
	case !strings.HasSuffix(said, "\n"):
		said += "\n"
	}
	printing.Lock()
	fmt.Print(strings.NewReplacer("ID", strconv.FormatInt(id, 10), "TOKEN", token).Replace(said))
	printing.Unlock()
	if do.Close {
		_ = os.Stdout.Close()
	}
	if do.CloseIn != "" {
		_ = os.Stdin.Close()
		_ = os.WriteFile(do.CloseIn, fmt.Appendln(nil, os.Getpid()), 0o600)
		time.Sleep(time.Minute)
	}
	if do.Exit != nil {
		os.Exit(*do.Exit)
	}
}

// stream is a Stream of such programs.
func stream(t *testing.T, processes, inFlight int, args ...string) *handler.Stream {
	t.Helper()
	s := &handler.Stream{
		Program: handler.Program{
			Argv: append([]string{os.Args[0], "stream"}, args...), Grace: 20 * time.Second, WorkerID: newWorkerID(),
		},
		Processes: processes, InFlight: inFlight,
	}
	t.Cleanup(s.Close)
	return s
}

// jobOf is a job with this ID and task.
func jobOf(id int64, do task) *job.Job {
	j := testJob()
	data, _ := json.Marshal(do)
	j.ID, j.AttemptToken, j.Data = id, fmt.Sprintf("token-%d", id), string(data)
	return j
}

// outcomes runs the jobs concurrently, each a moment after the previous one.
func outcomes(t *testing.T, s *handler.Stream, jobs ...*job.Job) []job.Outcome {
	t.Helper()
	list := make([]job.Outcome, len(jobs))
	var all sync.WaitGroup
	for i, j := range jobs {
		all.Go(func() {
			ctx, cancel := context.WithTimeoutCause(t.Context(), j.Timeout, fmt.Errorf("timeout after %s", j.Timeout))
			defer cancel()
			list[i] = s.Handle(ctx, j)
			list[i].Ran = 0
		})
		time.Sleep(20 * time.Millisecond)
	}
	all.Wait()
	return list
}

// TestStreamLog: lines that are no answer are the log, in order with stderr. An id may be text.
func TestStreamLog(t *testing.T) {
	t.Parallel()
	const said = "hello\n" + `{"level":"info"}` + "\n"
	got := outcomes(t, stream(t, 1, 1), jobOf(1, task{Log: "to stderr\n", Say: said + `{"id":"ID","outcome":"finished"}`}))[0]
	dbtest.Same(t, got, job.Outcome{Verdict: job.Finished, Output: "to stderr\n" + said})
}

// TestStreamShares: one program runs jobs one by one, or two at once; answers come in any order.
func TestStreamShares(t *testing.T) {
	t.Parallel()
	pids := func(s *handler.Stream, n, sleep int) map[string]bool {
		var jobs []*job.Job
		for i := range n {
			jobs = append(jobs, jobOf(int64(i+1), task{SleepMS: sleep * (n - i)}))
		}
		seen := map[string]bool{}
		for _, o := range outcomes(t, s, jobs...) {
			dbtest.Ensure(t, o.Verdict == job.Finished, "%+v", o)
			seen[o.Result] = true
		}
		return seen
	}
	got := pids(stream(t, 1, 1), 5, 10)
	dbtest.Ensure(t, len(got) == 1, "one process: %v", got)
	got = pids(stream(t, 1, 5), 5, 100)
	dbtest.Ensure(t, len(got) == 1, "one process, five in flight: %v", got)
	got = pids(stream(t, 3, 1), 6, 300)
	dbtest.Ensure(t, len(got) == 3, "three processes: %v", got)
}

// TestStreamCrash: a program that crashes fails its own jobs, and none of another program's.
func TestStreamCrash(t *testing.T) {
	t.Parallel()
	crash := 3
	s := stream(t, 2, 2)
	got := outcomes(t, s,
		jobOf(1, task{SleepMS: 600}), jobOf(2, task{Log: "Traceback: boo\n", SleepMS: 300, Silent: true, Exit: &crash}),
		jobOf(3, task{SleepMS: 600}), jobOf(4, task{SleepMS: 600}))
	text := "the program ended without an answer: exit status 3"
	errors := 0
	for i, o := range got {
		switch {
		case o.Verdict == job.TryAgain && strings.HasPrefix(o.Error, text):
			errors++
		case o.Verdict != job.Finished || i == 1:
			t.Errorf("job %d: %+v", i+1, o)
		}
	}
	want := text + ": Traceback: boo"
	dbtest.Ensure(t, got[1].Error == want, "got %q, want %q", got[1].Error, want)
	if errors != 2 { // the crashed program had two jobs
		t.Errorf("%d jobs went with the program, not 2: %+v", errors, got)
	}
	wantFinished(t, outcomes(t, s, jobOf(5, task{}))[0])
}

// TestStreamMisunderstood: unreadable output is the error of the unanswered job, and of no other.
func TestStreamMisunderstood(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, say, want string }{
		{"unreadable", `{"id":ID,"outcome":`, `a line of the program can't be read: its JSON is incomplete; a reply is one line: {"id":2,"outcome":`},
		{"too deep", `{"id":ID,"outcome":"finished","result":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}", "a line of the program can't be read: invalid character '[' exceeded max depth: "},
		{"no outcome", `{"id":ID,"result":"done"}`, `a line of the program can't be read: it has no outcome: {"id":2,"result":"done"}`},
		{"another outcome", `{"id":ID,"outcome":"done"}`, `a line of the program can't be read: its outcome is "done", which is not one of finished, retry, failed, sent, release: `},
		{"no id", `{"outcome":"finished"}`, "a line of the program can't be read: it has an outcome but no id: "},
		{"unknown", `{"id":99,"outcome":"finished"}`, "the program answered for job 99, which it doesn't have"},
		{"progress of an unknown", `{"id":99,"progress":5}`, "the program reported progress of job 99, which it doesn't have"},
		{"another token", `{"id":ID,"token":"x","outcome":"finished"}`, "the program answered for job 2 with a token that is not the attempt's"},
		{"twice", `{"id":ID,"outcome":"finished"}` + "\n" + `{"id":ID,"outcome":"failed"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := stream(t, 1, 3)
			got := outcomes(t, s, jobOf(1, task{SleepMS: 500}), jobOf(2, task{SleepMS: 100, Say: tt.say}), jobOf(3, task{SleepMS: 500}))
			dbtest.Ensure(t, got[0].Verdict == job.Finished && got[2].Verdict == job.Finished, "the others: %+v, %+v", got[0], got[2])
			if wrong := tt.want != ""; (got[1].Verdict == job.TryAgain) != wrong || !strings.HasPrefix(got[1].Error, tt.want) || strings.Contains(got[1].Error, "exit status 0") {
				t.Errorf("got %.300q\nwant %q", got[1].Error, tt.want)
			}
			wantFinished(t, outcomes(t, s, jobOf(4, task{}))[0])
		})
	}
}

// TestStreamTimeout: an overdue job is stopped with its program, once the program's other jobs are answered.
func TestStreamTimeout(t *testing.T) {
	t.Parallel()
	s := stream(t, 1, 2)
	s.Grace = 60 * time.Second
	wantFinished(t, outcomes(t, s, jobOf(9, task{}))[0]) // starts the program
	late := jobOf(1, task{SleepMS: 60_000})
	late.Timeout = 400 * time.Millisecond
	got := outcomes(t, s, late, jobOf(2, task{SleepMS: 1000}))
	dbtest.Ensure(t, got[0].Error == "timeout after 400ms" && got[0].Verdict == job.TryAgain, "%+v", got[0])
	dbtest.Require(t, got[1].Verdict == job.Finished, "the other: %+v", got[1])
	pid, err := strconv.Atoi(got[1].Result)
	if err != nil || syscall.Kill(pid, 0) != syscall.ESRCH { //nolint:errorlint // an errno
		t.Errorf("the program %s runs on after the attempt", got[1].Result)
	}
	o := outcomes(t, s, jobOf(3, task{}))[0]
	dbtest.Ensure(t, o.Verdict == job.Finished && o.Result != got[1].Result, "afterwards: %+v", o)
}

// TestStreamTimeoutBesideOthers: beyond the grace the program is ended despite its other jobs, and their errors say why.
func TestStreamTimeoutBesideOthers(t *testing.T) {
	t.Parallel()
	s := stream(t, 1, 3)
	s.Grace = 300 * time.Millisecond
	wantFinished(t, outcomes(t, s, jobOf(9, task{}))[0]) // starts the program
	late := jobOf(1, task{SleepMS: 600_000, Deaf: true})
	late.Timeout = 400 * time.Millisecond
	other, answered := jobOf(2, task{SleepMS: 600_000}), jobOf(3, task{})
	other.Timeout, answered.Timeout = time.Minute, time.Minute
	got := outcomes(t, s, late, other, answered)
	dbtest.Ensure(t, strings.HasPrefix(got[0].Error, "timeout after 400ms; ignored SIGTERM for ") && got[2].Verdict == job.Finished, "%+v\n%+v", got[0], got[2])
	want := "its program was ended because job 1 had to be stopped: timeout after 400ms"
	dbtest.Ensure(t, got[1].Verdict == job.TryAgain && got[1].Error == want, "got %q\nwant %q", got[1].Error, want)
	wantFinished(t, outcomes(t, s, jobOf(4, task{}))[0])
}

// TestStreamTimeoutIsAnswered: an answer after the timeout counts if the work is done, and the program may go on with its others.
func TestStreamTimeoutIsAnswered(t *testing.T) {
	t.Parallel()
	s := stream(t, 1, 3)
	s.Grace = 4 * time.Second
	wantFinished(t, outcomes(t, s, jobOf(9, task{}))[0]) // starts the program
	late, busy, other := jobOf(1, task{SleepMS: 700}), jobOf(2, task{SleepMS: 700, Say: `{"id":ID,"outcome":"retry","error":"busy"}`}), jobOf(3, task{SleepMS: 4000})
	late.Timeout, busy.Timeout = 400*time.Millisecond, 400*time.Millisecond
	got := outcomes(t, s, late, busy, other)
	dbtest.Ensure(t, got[0].Verdict == job.Finished && got[1].Error == "timeout after 400ms" && got[2].Verdict == job.Finished, "%+v\n%+v\n%+v", got[0], got[1], got[2])
}

// TestStreamHints: if a job stays unanswered after a wrong answer, its error says what is wrong.
func TestStreamHints(t *testing.T) {
	t.Parallel()
	const long = 4 * time.Second // a program on a busy machine has said its part by then
	const reply = `{"id":7,"outcome":"finished"}`
	for _, tt := range []struct{ name, say, want string }{
		{"no newline", `printf '%s' '` + reply + `'`, "timeout after 4s; the program's last line has no newline: end each reply with one, and flush it"},
		{"half a line", `printf working`, "timeout after 4s; the program's last line has no newline: end each reply with one, and flush it"},
		{"a list", `echo '[` + reply + `]'`, `timeout after 4s; the program printed a list: a reply is an object, {"id": …, "outcome": …}, on a line of its own`},
		{"a mark", `printf '\357\273\277%s\n' '` + reply + `'`, "timeout after 4s; the program printed a byte order mark: a reply is UTF-8 without one"},
		{"a mark of UTF-16", `printf '\377\376{\0"\0o\0u\0t\0c\0o\0m\0e\0"\0:\0\n\0'`, "timeout after 4s; the program printed a byte order mark: a reply is UTF-8 without one"},
		{"text", `echo done`, `timeout after 4s; the program printed lines but no reply: a reply is {"id": …, "outcome": …} on a line of its own`},
		{"nothing", `echo done >&2`, "timeout after 4s"},
		{"pretty", `printf '{\n  "id": 7,\n  "outcome": "finished"\n}\n'`, "timeout after 4s; a line of the program can't be read: its JSON is incomplete; a reply is one line: {"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := shStream(t, "read -r line; "+tt.say+"; exec sleep 60")
			o := within(t, s, testJob(), long)
			dbtest.Ensure(t, o.Error == tt.want, "got %q\nwant %q", o.Error, tt.want)
		})
	}
	// a program that has answered other jobs gives such a hint too
	for _, tt := range []struct{ name, say, want string }{
		{"a list", `[{"id":ID,"outcome":"finished"}]`, `timeout after 4s; the program printed a list: a reply is an object, {"id": …, "outcome": …}, on a line of its own`},
		{"a mark", "\uFEFF" + `{"id":ID,"outcome":"finished"}`, "timeout after 4s; the program printed a byte order mark: a reply is UTF-8 without one"},
		{"pretty", "{\n  \"id\": ID,\n  \"outcome\": \"finished\"\n}", "a line of the program can't be read: its JSON is incomplete; a reply is one line: {"},
		{"text", "[info] done", "timeout after 4s"},
		{"text with a mark", "\uFEFFdone", "timeout after 4s"},
	} {
		t.Run(tt.name+", later", func(t *testing.T) {
			t.Parallel()
			s := stream(t, 1, 3)
			s.Grace = 200 * time.Millisecond
			late := jobOf(2, task{Say: tt.say})
			if late.Timeout = long; !strings.HasPrefix(tt.want, "timeout") {
				late.Timeout = 20 * time.Second
			}
			got := outcomes(t, s, jobOf(1, task{}), late, jobOf(3, task{SleepMS: 300}))
			dbtest.Ensure(t, got[0].Verdict == job.Finished && got[2].Verdict == job.Finished, "the others: %+v, %+v", got[0], got[2])
			dbtest.Ensure(t, got[1].Error == tt.want, "got %q\nwant %q", got[1].Error, tt.want)
		})
	}
	// a program that has answered before knows how, and only took too long
	s := shStream(t, `read -r line; echo '`+reply+`'; read -r line; echo half; printf 'the other half'; exec sleep 60`)
	wantFinished(t, within(t, s, testJob(), 20*time.Second))
	o := within(t, s, testJob(), long)
	dbtest.Ensure(t, o.Error == "timeout after 4s", "%+v", o)
}

// TestStreamAnswersTwice: a program that answers a job twice is replaced, although all its jobs are answered. The log and the
// next job's output say so.
func TestStreamAnswersTwice(t *testing.T) {
	t.Parallel()
	log := make(lines, 10)
	s := shStream(t, `read -r line; echo '{"id":7,"outcome":"finished"}'; echo '{"id":7,"outcome":"failed"}'; read -r line`)
	s.Log = slog.New(slog.NewTextHandler(log, nil))
	const want = "the program answered twice for job 7"
	for n, output := range []string{"", "[" + want + ": it gets no more jobs]\n"} {
		o := within(t, s, testJob(), 20*time.Second)
		dbtest.Ensure(t, o.Verdict == job.Finished && o.Output == output, "%d: %+v", n, o)
		select {
		case line := <-log:
			dbtest.Ensure(t, strings.Contains(line, want), "%v", line)
		case <-time.After(time.Minute):
			t.Fatal("nothing is logged")
		}
	}
}

// lines are the lines of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// TestStreamClosesOutput: a program that closes its stdout can't answer: its jobs soon fail.
func TestStreamClosesOutput(t *testing.T) {
	t.Parallel()
	s := stream(t, 1, 2)
	got := outcomes(t, s, jobOf(1, task{SleepMS: 60_000}), jobOf(2, task{Close: true}))
	want := "the program has closed its standard output"
	dbtest.Ensure(t, got[0].Error == want, "got %q\nwant %q", got[0].Error, want)
	dbtest.Ensure(t, got[1].Verdict == job.Finished, "the one before: %+v", got[1])
}

// TestStreamClosesOutputUnread: a job that the program got before this was noticed, and didn't read, goes to another.
func TestStreamClosesOutputUnread(t *testing.T) {
	t.Parallel()
	dbtest.SkipIf(t, runtime.GOOS != "linux", "only Linux says what nobody has read")
	s := shStream(t, `read -r line; echo '{"id":7,"outcome":"finished"}'; exec >&-; exec sleep 60`)
	for n := range 2 {
		o := within(t, s, testJob(), 20*time.Second)
		dbtest.Ensure(t, o.Verdict == job.Finished, "%d: %+v", n, o)
	}
}

// TestStreamEndsInOrder: a program may end after any answer: unread jobs go to another, at no cost.
func TestStreamEndsInOrder(t *testing.T) {
	t.Parallel()
	dbtest.SkipIf(t, runtime.GOOS != "linux", "only Linux says what nobody has read")
	over := 0
	s := stream(t, 2, 1, "single")
	for i := range 30 {
		wantFinished(t, outcomes(t, s, jobOf(int64(i+1), task{Exit: &over}))[0])
	}
}

// TestStreamStillborn: programs that end as soon as they start are restarted ever more slowly.
func TestStreamStillborn(t *testing.T) {
	t.Parallel()
	const end = "the program ended without an answer: exit status 1: "
	for args, reason := range map[string]string{
		"stillborn":          end + "no such table: users",
		"stillborn babbling": "a line of the program can't be read: invalid character 'c' looking for beginning of object key string: { code: 'ENOENT' }; " + end + "no such table: users",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			births := filepath.Join(t.TempDir(), "births")
			s := stream(t, 1, 1, append(strings.Fields(args), "born", births)...)
			var jobs []*job.Job
			for i := range 40 {
				jobs = append(jobs, jobOf(int64(i+1), task{}))
			}
			begun, refused := 0, 0
			for _, o := range outcomes(t, s, jobs...) {
				switch {
				case o.Error == reason:
					begun++
				case o.Verdict == job.NotBegun && strings.HasPrefix(o.Error, "not started: the last ") && strings.HasSuffix(o.Error, "the latest with: "+reason):
					refused++
				default:
					t.Errorf("%+v", o)
				}
			}
			text := dbtest.Must(os.ReadFile(births))(t)
			if born := strings.Count(string(text), "\n"); born != begun || born < 2 || refused < 10 {
				t.Errorf("%d programs have started for 40 jobs, %d of which began, and %d were refused", born, begun, refused)
			}
		})
	}
}

// TestStreamStartsAgain: after programs that ended without an answer, the next starts later, also for jobs that wait already,
// and although another program is busy.
func TestStreamStartsAgain(t *testing.T) {
	t.Parallel()
	born, crash := filepath.Join(t.TempDir(), "born"), 3
	s := stream(t, 2, 1, "born", born)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Handle(ctx, jobOf(1, task{SleepMS: 600_000}))
	}()
	defer func() {
		cancel()
		<-done
	}()
	dbtest.Number(t, born)
	began := time.Now()
	crashes := task{SleepMS: 200, Silent: true, Exit: &crash}
	for _, o := range outcomes(t, s, jobOf(2, crashes), jobOf(3, crashes), jobOf(4, crashes)) {
		dbtest.Ensure(t, strings.HasPrefix(o.Error, "the program ended without an answer: exit status 3"), "%+v", o)
	}
	took := time.Since(began)
	dbtest.Ensure(t, took >= time.Second, "the third program started without delay: %s", took)
	wantFinished(t, within(t, s, jobOf(5, task{}), time.Minute))
}

// TestStreamClose: Close tells programs by the end of their input, and kills one that stays.
func TestStreamClose(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"stays"}} {
		s := stream(t, 1, 1, args...)
		s.Grace = 100 * time.Millisecond
		pid := dbtest.Must(strconv.Atoi(outcomes(t, s, jobOf(1, task{}))[0].Result))(t)
		s.Close()
		if syscall.Kill(pid, 0) != syscall.ESRCH { //nolint:errorlint // an errno
			t.Errorf("%v: the program runs on", args)
		}
		o := outcomes(t, s, jobOf(2, task{}))[0]
		dbtest.Ensure(t, o.Error == "the worker has ended", "after Close: %+v", o)
	}
}

// TestStreamStaysSmall: after many jobs and some programs' ends, a stream holds no more memory and no files. soak of
// internal/proof lets a worker live for long.
func TestStreamStaysSmall(t *testing.T) {
	const rounds, width, n = 5, 4, 2000
	s := shStream(t, "exec '"+os.Args[0]+"' echo")
	s.Processes, s.InFlight = 2, width/2
	var heaps []uint64
	var files []int
	for round := range rounds {
		var all sync.WaitGroup
		for first := range width {
			all.Go(func() {
				j := testJob()
				for i := first; i < n; i += width {
					j.ID = int64(round*n + i + 1)
					o := s.Handle(t.Context(), j)
					dbtest.Ensure(t, o.Verdict == job.Finished, "%d: %+v", j.ID, o)
				}
			})
		}
		all.Wait()
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		heaps = append(heaps, mem.HeapAlloc)
		open := dbtest.Must(os.ReadDir("/dev/fd"))(t)
		files = append(files, len(open))
	}
	dbtest.Ensure(t, heaps[rounds-1] <= heaps[0]+1<<20 && files[rounds-1] <= files[0]+8,
		"round by round the heap has %d bytes, and %d files are open", heaps, files)
}

// echoProgram is a Stream's program that logs each job and finishes it. It ends about every 500 jobs, when it has none.
func echoProgram([]string) error {
	in := bufio.NewReader(os.Stdin)
	for n := 0; n < 500 || in.Buffered() > 0; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil //nolint:nilerr // the end of input
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(string(line), `{"id":`), ",")
		fmt.Fprintln(os.Stderr, "job", id)
		fmt.Printf(`{"id":%s,"outcome":"finished"}`+"\n", id)
	}
	return nil
}
