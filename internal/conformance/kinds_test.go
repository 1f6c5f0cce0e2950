package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// kind is a kind of handler.
type kind struct {
	name string
	open func(*testing.T) speaker
	// reply finds the reply in the kept output: an exec's last line, and after an error an endpoint's whole answer.
	reply *regexp.Regexp
}

// speaker is a handler of a kind that reports what its jobs tell it to.
type speaker struct {
	handler.Handler
	// left are its processes after its worker has ended.
	left func() []int
}

// kinds are all kinds. A new kind gets a speaker here, and must pass each case.
var kinds = []kind{
	{"exec", func(t *testing.T) speaker {
		e := &handler.Exec{Program: program("exec")}
		return speaker{e, func() []int { return withWorker(e.WorkerID) }}
	}, regexp.MustCompile(`\{"outcome"[^\n]*\n?$`)},
	{"stream", func(t *testing.T) speaker {
		s := &handler.Stream{Program: program("stream"), Processes: 2, InFlight: 2}
		t.Cleanup(s.Close)
		return speaker{s, func() []int {
			s.Close()
			return withWorker(s.WorkerID)
		}}
	}, nil},
	{"http", func(t *testing.T) speaker {
		var deaf context.Context
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { sayHTTP(deaf, w, r) }))
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs panics
		server.Start()
		t.Cleanup(server.Close)
		deaf = whileTested(t)
		h := &handler.HTTP{URL: server.URL, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
		t.Cleanup(h.Close)
		return speaker{h, func() []int { return nil }}
	}, regexp.MustCompile(`(?s)^[2-5]\d\d [A-Z][A-Za-z ]+\n.*$`)},
	{"func", func(t *testing.T) speaker {
		deaf := whileTested(t)
		f := func(ctx context.Context, j *job.Job) (string, error) { return sayFunc(ctx, deaf, j) }
		return speaker{handler.ResultFunc(f), func() []int { return nil }}
	}, nil},
}

// whileTested ends with the test: inside this process, a deaf handler listens only to it.
func whileTested(t *testing.T) context.Context {
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	return ctx
}

// program is this test binary in a role.
func program(role string) handler.Program {
	return handler.Program{Argv: []string{os.Args[0], role}, Grace: grace, WorkerID: uuid.NewString()}
}

// withWorker are the processes of a worker.
func withWorker(id string) (pids []int) {
	for pid := range process.Others() {
		if process.HasInEnvironment(pid, "HIPQ_WORKER_ID="+id) && process.Runs(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// terminated is a context that ends with TERM, unless the process is to be deaf.
func terminated(w words) context.Context {
	if w.Deaf {
		signal.Ignore(syscall.SIGTERM)
		return context.Background()
	}
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	return ctx
}

// sayExec is the program of an Exec.
func sayExec() {
	var m message
	if err := json.NewDecoder(os.Stdin).Decode(&m); err != nil {
		panic(err)
	}
	status := map[job.Verdict]int{job.Finished: 0, job.Sent: 0, job.Released: 0, job.TryAgain: 75, job.Failed: 65}[m.Words.verdict()]
	switch ended := m.work(terminated(m.Words), os.Stderr, m.progress(os.Stdout, false)); {
	case !ended:
		status = 1
	case m.Words.Plain:
		fmt.Println(string(m.Words.Error))
	default:
		fmt.Print(m.reply(false))
	}
	os.Exit(status)
}

// sayStream is the program of a Stream: it does its jobs concurrently.
func sayStream() {
	var printing sync.Mutex
	in := bufio.NewReader(os.Stdin)
	var late sync.WaitGroup
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			late.Wait()
			os.Exit(0)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			panic(err)
		}
		if m.Words.Late {
			late.Add(1)
		}
		go func() {
			if m.Words.Late {
				defer late.Done()
			}
			if !m.work(terminated(m.Words), os.Stderr, m.progress(os.Stdout, true)) {
				os.Exit(1)
			}
			printing.Lock()
			defer printing.Unlock()
			fmt.Print(m.reply(true))
		}()
	}
}

// sayHTTP is the endpoint of an HTTP. Reports before the verdict are lines, which fix the status.
func sayHTTP(deaf context.Context, answer http.ResponseWriter, r *http.Request) {
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		panic(err)
	}
	w := m.Words
	status := map[job.Verdict]int{
		job.Finished: http.StatusOK, job.Released: http.StatusOK, job.Sent: http.StatusAccepted, job.TryAgain: http.StatusServiceUnavailable, job.Failed: http.StatusUnprocessableEntity,
	}[w.verdict()]
	told := r.Context()
	if w.Deaf {
		told = deaf
	}
	if len(w.Log) > 0 || w.Progress > 0 {
		answer.Header().Set("Content-Type", "application/x-ndjson")
		status = http.StatusOK
		answer.WriteHeader(status)
	}
	if !m.work(told, flushing{answer}, m.progress(flushing{answer}, false)) {
		return
	}
	body := m.reply(false)
	if w.Plain {
		if body = w.result() + string(w.Error); w.After > 0 {
			answer.Header().Set("Retry-After", strconv.Itoa(w.After))
		}
	}
	if answer.Header().Get("Content-Type") == "" {
		answer.WriteHeader(status)
	}
	_, _ = io.WriteString(answer, body)
}

// flushing flushes each write.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(text []byte) (int, error) {
	n, err := f.ResponseWriter.Write(text)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}

// sayFunc is the function of a Func.
func sayFunc(ctx, deaf context.Context, j *job.Job) (string, error) {
	m := message{ID: j.ID, Token: j.AttemptToken, Attempt: j.Attempt}
	if err := json.Unmarshal([]byte(j.Data), &m.Words); err != nil {
		return "", err
	}
	told := ctx
	if m.Words.Deaf {
		told = deaf
	}
	if !m.work(told, handler.Output(ctx), func(percent int, note string) { handler.Progress(ctx, percent, note) }) {
		return "", ctx.Err()
	}
	w, err := m.Words, errors.New(string(m.Words.Error))
	if w.After > 0 {
		err = handler.RetryAfter(err, time.Duration(w.After)*time.Second)
	}
	switch w.verdict() {
	case job.Finished:
		err = nil
	case job.Sent:
		err = handler.ErrSent
	case job.Failed:
		err = handler.DoNotRetry(err)
	case job.Released:
		err = fmt.Errorf("wrapped: %w", handler.Release(time.Duration(w.After)*time.Second, w.Count))
	}
	return w.result(), err
}
