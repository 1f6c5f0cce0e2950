package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Place is a queue in a database. Source is a file, or a DSN.
type Place struct{ Driver, Source, Instance, Queue string }

// Work is what a worker in a process of its own does.
type Work struct {
	Place
	Concurrency int
	// Poll, if not 0, makes the worker stay until its input ends, and report each start.
	Poll time.Duration
}

// Process is a worker in a process of its own, and on a host of its own.
type Process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// StartProcess starts the program, which calls Serve, and waits until it is ready.
func StartProcess(ctx context.Context, program string, w Work) (*Process, error) {
	task, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.CommandContext(ctx, program, string(task))}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	_, err = p.next("ready")
	return p, err
}

// Begin lets the worker begin.
func (p *Process) Begin() error {
	_, err := fmt.Fprintln(p.in, "begin")
	return err
}

// Started returns when the worker's next job started.
func (p *Process) Started() (time.Time, error) {
	at, err := p.next("start")
	return time.Unix(0, at), err
}

// Wait ends a worker that stays, and waits for the end. It returns how many jobs have finished.
func (p *Process) Wait() (int, error) {
	if err := p.in.Close(); err != nil {
		return 0, err
	}
	n, err := p.next("finished")
	if err != nil {
		return 0, err
	}
	return int(n), p.cmd.Wait()
}

func (p *Process) next(want string) (n int64, err error) {
	if !p.out.Scan() {
		return 0, fmt.Errorf("a worker's process has ended: %w", p.cmd.Wait())
	}
	var word string
	if _, err := fmt.Sscan(p.out.Text(), &word, &n); err != nil || word != want {
		return 0, fmt.Errorf("a worker's process said %q, want %s", p.out.Text(), want)
	}
	return n, nil
}

// Serve is the other end of a Process, whose program's argument is task.
func Serve(ctx context.Context, task string, in io.Reader, out io.Writer) error {
	var w Work
	if err := json.Unmarshal([]byte(task), &w); err != nil {
		return err
	}
	db, err := schema.Open(ctx, schema.Options{Driver: w.Driver, Path: w.Source, DSN: w.Source, Patient: true}, schema.Named(w.Instance))
	if err != nil {
		return err
	}
	defer db.Close()
	created, err := queue.New(db, Plain(w.Queue))
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ready 0")
	lines := bufio.NewScanner(in)
	lines.Scan()
	workers := Workers{Concurrency: w.Concurrency, Poll: w.Poll}
	if w.Poll > 0 {
		workers.Handler = Starts(func(at time.Time) { fmt.Fprintln(out, "start", at.UnixNano()) })
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		go func() {
			lines.Scan()
			stop()
		}()
	}
	n, err := (&Queue{created}).Drain(ctx, workers)
	if err == nil {
		fmt.Fprintln(out, "finished", n)
	}
	return err
}

// Starts handles jobs by telling when they start.
func Starts(told func(time.Time)) handler.Handler {
	var one sync.Mutex
	return handler.Func(func(context.Context, *job.Job) error {
		now := time.Now()
		one.Lock()
		defer one.Unlock()
		told(now)
		return nil
	})
}

// Processes are workers in so many processes, which begin together.
func Processes(ctx context.Context, program string, n int, w Work) (begin func() (finished int, err error), err error) {
	all := make([]*Process, n)
	for i := range all {
		if all[i], err = StartProcess(ctx, program, w); err != nil {
			return nil, err
		}
	}
	return func() (finished int, err error) {
		counts := make([]int, n)
		err = together(n, func(i int) (err error) {
			if err = all[i].Begin(); err == nil {
				counts[i], err = all[i].Wait()
			}
			return err
		})
		for _, count := range counts {
			finished += count
		}
		return finished, err
	}, nil
}
