package crash

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// fleet runs the workers: processes of hipq work that overlap like ticks of cron.
type fleet struct {
	t    *testing.T
	hipq hipq
	db   *database
	rng  *rand.Rand
	// others start workers in other languages, in turns with hipq's own.
	others []func() *exec.Cmd
	turn   int
	// size is how many workers overlap, besides those that are taken.
	size int
	// idle learns of workers and faults.
	idle *dbtest.Watch
	// aim makes kills prefer workers that have jobs, because under a throttle limit few have any.
	aim bool

	mu   sync.Mutex
	live []*worker
	// over are the ended workers.
	over []*worker
	// kills counts the killed workers whose row was working. with counts those of them with running handlers.
	kills, with int
	// between counts the killed workers that had claimed jobs and started none. within counts other languages' with a
	// started job.
	between, within int
	// running, deciding and grabbed count the jobs of killed workers: started, in the retry decision, and not started.
	running, deciding, grabbed int
	stops                      []string
	// inStart counts workers stopped while they started a handler, and killed before their lock expired.
	inStart int
	// missed counts the stops without a comeback; see stop.
	missed int
}

// worker is one process.
type worker struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	began  time.Time
	// ended is closed when the process has ended.
	ended chan struct{}
	// taken reserves the worker for an actor that sends it signals. fleet.mu guards it.
	taken bool
	// excused allows it to end with 75.
	excused bool
	// id is set if it was killed or stopped while it worked.
	id string
	// killed is set after a test's SIGKILL, stopped after a test's SIGSTOP.
	killed, stopped bool
}

func newFleet(t *testing.T, h hipq, db *database, rng *rand.Rand, size int) *fleet {
	f := &fleet{t: t, hipq: h, db: db, rng: rng, size: size}
	t.Cleanup(f.destroy)
	return f
}

// keep replaces ended workers until ctx ends.
func (f *fleet) keep(ctx context.Context) {
	for ctx.Err() == nil {
		f.mu.Lock()
		free := 0
		for _, w := range f.live {
			if !w.taken {
				free++
			}
		}
		f.mu.Unlock()
		if free < f.size {
			f.launch()
		}
		// a tick without jobs ends at once; this limits the rate of new ones
		time.Sleep(100 * time.Millisecond)
	}
}

// launch starts a worker with random options.
func (f *fleet) launch() {
	f.turn++
	if i := f.turn % (len(f.others) + 1); i > 0 {
		_, err := f.start(f.others[i-1]())
		dbtest.Ensure(f.t, err == nil, "%v", err)
		return
	}
	slots, err := f.db.slots()
	dbtest.Ensure(f.t, err == nil, "%v", err)
	share := []int{2, 4, 8}
	if f.aim {
		share = []int{1, 2} // under a throttle limit, spread the few jobs over many workers
	}
	pick := func(of ...int) int { return of[f.rng.IntN(len(of))] }
	args := []string{
		// --verbose reports a lost lock
		"work", "--verbose", "--run-for", fmt.Sprint(pick(2, 5, 20), "s"), "--batch", fmt.Sprint(pick(1, 10, 50, 100)),
		// --concurrency covers all workers of the host, including dead ones until their locks expire. So it must exceed
		// their slots.
		"--concurrency", fmt.Sprint(min(slots+pick(share...), 40)),
	}
	if f.rng.IntN(2) == 0 {
		args = append(args, "--linger")
	}
	if f.rng.IntN(8) == 0 {
		args = append(args, "--max-jobs", fmt.Sprint(pick(1, 20, 100)))
	}
	if f.rng.IntN(8) == 0 {
		args = append(args, queues[f.rng.IntN(len(queues))])
	}
	if _, err := f.start(f.hipq.command(args...)); err != nil {
		f.t.Error(err)
	}
}

func (f *fleet) start(c *exec.Cmd) (*worker, error) {
	w := &worker{cmd: c, began: time.Now(), ended: make(chan struct{})}
	w.cmd.Stderr = &w.stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	f.idle.Hire(c.Process.Pid, c.Args[1:])
	f.mu.Lock()
	f.live = append(f.live, w)
	f.mu.Unlock()
	go f.await(w)
	return w, nil
}

// await moves a worker to over when it ends.
func (f *fleet) await(w *worker) {
	_ = w.cmd.Wait() // ProcessState has the error too
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, other := range f.live {
		if other == w {
			f.live = append(f.live[:i:i], f.live[i+1:]...)
			break
		}
	}
	f.over = append(f.over, w)
	close(w.ended)
}

func anyWorker(*worker) bool { return true }

// take reserves a random worker among those that qualify, or returns nil.
func (f *fleet) take(rng *rand.Rand, these func(*worker) bool) *worker {
	f.mu.Lock()
	defer f.mu.Unlock()
	var free []*worker
	for _, w := range f.live {
		if !w.taken && these(w) {
			free = append(free, w)
		}
	}
	if len(free) == 0 {
		return nil
	}
	w := free[rng.IntN(len(free))]
	w.taken = true
	return w
}

func (f *fleet) leave(w *worker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.taken = false
}

// signal sends a signal. It does nothing after Wait, so it can't hit a new process with the same id.
func (w *worker) signal(s syscall.Signal) {
	w.stopped = w.stopped || s == syscall.SIGSTOP
	_ = w.cmd.Process.Signal(s)
}

// endedByKill reports whether a SIGKILL ended the worker.
func (w *worker) endedByKill() bool {
	status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// complaints are the first lines that the worker printed, without its debug log.
func (w *worker) complaints() string {
	lines := slices.DeleteFunc(strings.Split(w.stderr.String(), "\n"), func(line string) bool { return strings.Contains(line, "level=DEBUG") })
	return strings.Join(lines[:min(len(lines), 20)], "\n")
}

// killAll kills workers at random moments, until n of them were at work.
func (f *fleet) killAll(ctx context.Context, n int, rng *rand.Rand) {
	for f.kills < n && ctx.Err() == nil {
		time.Sleep(time.Duration(150+rng.IntN(700)) * time.Millisecond)
		take := func() *worker { return f.take(rng, anyWorker) }
		if f.aim {
			take = func() *worker { return f.takeBusy(rng) }
		}
		if w := take(); w != nil {
			f.kill(w)
		}
	}
}

// takeBusy takes a worker that has jobs. If none appears soon, it takes any worker.
func (f *fleet) takeBusy(rng *rand.Rand) *worker {
	for range 100 {
		running, err := f.db.running()
		if err != nil {
			f.t.Error(err)
			break
		}
		if w := f.take(rng, func(w *worker) bool {
			_, busy := running[w.cmd.Process.Pid]
			return busy
		}); w != nil {
			return w
		}
		time.Sleep(2 * time.Millisecond)
	}
	return f.take(rng, anyWorker)
}

// killOthers kills workers in other languages: n between claim and start, and n during a job.
func (f *fleet) killOthers(ctx context.Context, n int, rng *rand.Rand) {
	for ctx.Err() == nil {
		f.mu.Lock()
		between, within := f.between < n, f.within < n
		f.mu.Unlock()
		if !between && !within {
			return
		}
		time.Sleep(20 * time.Millisecond)
		running, err := f.db.running()
		if err != nil {
			f.t.Error(err)
			return
		}
		w := f.take(rng, func(w *worker) bool {
			runs, has := running[w.cmd.Process.Pid]
			return w.cmd.Path != f.hipq.program && has && (runs == 0 && between || runs > 0 && within)
		})
		if w != nil {
			f.kill(w)
			time.Sleep(500 * time.Millisecond)
		}
	}
}

// healed is when a fault of now is over: its worker is known to be dead, or at work again, and another has its jobs.
func (f *fleet) healed() time.Time { return time.Now().Add(shortestLock + 5*time.Second) }

func (f *fleet) kill(w *worker) {
	f.idle.Excuse(f.healed())
	id, err := f.db.workerOf(w.cmd.Process.Pid)
	w.signal(syscall.SIGKILL)
	<-w.ended
	dbtest.Ensure(f.t, err == nil, "%v", err)
	if !w.endedByKill() {
		return // it had just ended
	}
	w.killed = true
	if id == "" {
		return // it had not registered
	}
	state, err := f.db.workerState(id)
	held, e := f.db.held(id)
	if err != nil || e != nil {
		f.t.Error(err, e)
	}
	if state != "working" {
		return // it had signed off
	}
	w.id = id
	count := map[string]int{}
	for _, j := range held {
		count[j.state]++
	}
	running, grabbed := count["running"], count["initial"]+count["retry"]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kills++
	f.running += running
	f.deciding += count["error"]
	f.grabbed += grabbed
	if running > 0 {
		f.with++
	}
	if grabbed > 0 && grabbed == len(held) {
		f.between++
	}
	if running > 0 && w.cmd.Path != f.hipq.program {
		f.within++
	}
}

// sendHome ends the remaining workers with SIGTERM and waits for them.
func (f *fleet) sendHome() {
	f.mu.Lock()
	left := append([]*worker(nil), f.live...)
	f.mu.Unlock()
	for _, w := range left {
		time.Sleep(time.Until(w.began.Add(2 * time.Second))) // a new process doesn't catch signals yet
		f.awaitRegistered(w)
		w.signal(syscall.SIGTERM)
	}
	limit := time.After(time.Minute)
	for _, w := range left {
		select {
		case <-w.ended:
		case <-limit:
			f.t.Errorf("worker %d does not end on SIGTERM", w.cmd.Process.Pid)
			return
		}
	}
}

// awaitRegistered waits until a worker in another language has registered, because these start slowly.
func (f *fleet) awaitRegistered(w *worker) {
	for limit := time.Now().Add(time.Minute); w.cmd.Path != f.hipq.program && time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		id, err := f.db.workerOf(w.cmd.Process.Pid)
		dbtest.Ensure(f.t, err == nil, "%v", err)
		select {
		case <-w.ended:
			return
		default:
		}
		if id != "" || err != nil {
			return
		}
	}
}

// destroy kills what a failed test would leave behind.
func (f *fleet) destroy() {
	f.mu.Lock()
	left := append([]*worker(nil), f.live...)
	f.mu.Unlock()
	for _, w := range left {
		w.signal(syscall.SIGKILL)
		<-w.ended
	}
	for pid := range f.hipq.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func (f *fleet) summary() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%d workers, %d killed at work (%d with handlers running, %d between grab and start; in all they ran %d jobs, "+
		"decided about %d and had %d to start), %d stopped (%s; %d killed as they started a handler; %d tries taken back)", len(f.over)+len(f.live), f.kills, f.with, f.between,
		f.running, f.deciding, f.grabbed, len(f.stops), strings.Join(f.stops, ", "), f.inStart, f.missed)
}
