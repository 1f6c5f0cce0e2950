//go:build linux && amd64

package proof

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/internal/dbtest"
)

func init() {
	kinds = append(kinds, kind{
		name: "resources", title: "Disk full, disk errors, too few descriptors, processes or memory, for workers, guards, forks, handlers and clients; " +
			"60 `hipq work` at once",
		must: "lost, doubled, a command that doesn't name the cause, jobs that still wait a minute after it, descriptors, temporary files and rows left", faults: 25,
		turns: []engineTurns{{"sqlite", 1}, {"mariadb", 1}}, round: resources,
	})
}

// scarcity takes resources away for a while: it makes system calls fail of some of the round's processes.
type scarcity struct {
	*plight

	mu sync.Mutex
	// now is what is missing and for which process; nil if nothing is.
	now *shortage
	who string
	// The calls from this one on fail, each so many. met counts them all, hits the failed ones.
	from, every, met, hits int
	// lost are the outputs of clients that could not be written.
	lost map[string]bool
	// env is for new processes. plain ones aren't traced.
	env   []string
	plain bool
}

type shortage struct {
	what  string
	calls []string
	errno syscall.Errno
}

var (
	shortages = []shortage{
		{"the disk is full", writeCalls, syscall.ENOSPC},
		{"the disk reports errors", writeCalls, syscall.EIO},
		{"no descriptors", descriptorCalls, syscall.EMFILE},
		{"no processes", startCalls, syscall.EAGAIN},
	}
	whom = []string{"workers", "guards", "forks", "handlers", "clients", "everything"}
	// tight are the other shortages.
	tight = []func(*scarcity) string{(*scarcity).crowd, (*scarcity).space, (*scarcity).data, (*scarcity).soft}
)

// causes matches what a process says if it lacks something. Without a descriptor, SQLite says only that it can't open the file,
// or that the file is read-only, because it then tries to open it for reading.
const causes = "no space left on device|disk is full|input/output error|disk I/O error|too many open files|unable to open database file|" +
	"attempt to write a readonly database|resource temporarily unavailable|out of memory|cannot allocate memory"

// resources lets one resource after another run out.
func resources(r *round) {
	s := &scarcity{plight: &plight{round: r, rng: r.random(10)}, lost: map[string]bool{}}
	r.starter, r.blames = s.start, regexp.MustCompile(causes+`|^exit status 2: .*/runtime/asm_amd64\.s:`) // so ends a Go handler without memory
	r.says = regexp.MustCompile(causes + "|lost its lock")
	const each, busy = 5, 45 // a worker with 8 handlers has up to so many descriptors
	r.ownTemporary()
	before := s.remains()
	r.live(workload{ticks: 3, backlog: 40}, time.Minute, func(ctx context.Context) {
		ctx, stop := context.WithCancel(ctx)
		var crew sync.WaitGroup
		crew.Go(func() { s.look(ctx) })
		for n := 0; n < each && time.Now().Before(r.until); n++ {
			time.Sleep(time.Duration(s.rng.IntN(1000)) * time.Millisecond)
			all := len(shortages)*len(whom) + len(tight)
			k := ((r.number-1)*each + n) * 11 % all // neighbours have little in common
			long := s.tick("work", "--linger", "--run-for", "30m", "--concurrency", "8")
			long.stopped = time.Hour
			_, most := s.descriptors(long)
			var what string
			if t := k - len(shortages)*len(whom); t >= 0 {
				what = tight[t](s)
			} else {
				what = s.lack(&shortages[k/len(whom)], whom[k%len(whom)])
			}
			s.recovers(what)
			least, _ := s.descriptors(long) // 0: the shortage has ended it
			s.t.Logf("descriptors of the long worker: up to %d, then from %d", most, least)
			if least > max(most, busy)+10 {
				s.violates("%s: a worker has %d descriptors or more; it had %d or fewer before", what, least, most)
			}
			_ = long.cmd.Process.Signal(syscall.SIGTERM)
			<-long.ended
		}
		stop()
		crew.Wait()
	})
	for what, n := range s.remains() {
		if n != before[what] {
			s.violates("%s: %d, before the shortages %d", what, n, before[what])
		}
	}
}

// descriptors are the fewest and the most of a busy worker for a while.
func (s *scarcity) descriptors(t *tick) (least, most int) {
	for n := range 40 {
		time.Sleep(100 * time.Millisecond)
		is := descriptors(t.cmd.Process.Pid)
		if most = max(most, is); n == 0 || is < least {
			least = is
		}
	}
	return least, most
}

// remains counts what is as before when all jobs are done.
func (s *scarcity) remains() map[string]int {
	counts, query := map[string]int{}, map[string]string{"proof_workers": " WHERE state = 'working'"}
	for _, q := range queues {
		query["proof_"+q] = " WHERE state <> 'final'"
	}
	for _, pattern := range []string{"/tmp/*", "/.[^c]*", "/look-*"} {
		files, _ := filepath.Glob(s.dir + pattern)
		counts["files such as "+pattern] = len(files)
	}
	for _, table := range s.tables() {
		if slices.Contains([]string{"proof_activity", "proof_metrics", "proof_hours", "proof_notices", "proof_shards"}, table) {
			continue // they grow
		}
		n := 0
		dbtest.OK(s.t, s.db.QueryRow("SELECT COUNT(*) FROM "+table+query[table]).Scan(&n))
		counts["rows of "+table+query[table]] = n
	}
	return counts
}

// lack lets something be missing for a while.
func (s *scarcity) lack(now *shortage, who string) string {
	u := s.rng.Float64()
	last := time.Second + time.Duration(u*u*float64(lockFor+time.Second))
	s.mu.Lock()
	s.now, s.who, s.met, s.hits = now, who, 0, 0
	s.from, s.every = 1+s.rng.IntN([]int{1, 4, 20}[s.rng.IntN(3)]), []int{1, 1, 2, 5}[s.rng.IntN(4)]
	s.mu.Unlock()
	time.Sleep(last)
	s.mu.Lock()
	defer s.mu.Unlock()
	what := fmt.Sprintf("%s (%s) for %s, for %s: %d calls failed, each %d. from the %d. on", now.what, now.errno, who,
		last.Round(time.Millisecond), s.hits, s.every, s.from)
	if s.now = nil; s.hits > 0 {
		s.inject("%s", what)
	} else {
		s.notes = append(s.notes, "not counted: "+what)
		s.t.Log("not counted: " + what)
	}
	return what
}

// hook makes calls of a command's processes fail.
func (s *scarcity) hook(verb string) func(*tracedCall) {
	return func(c *tracedCall) {
		s.mu.Lock()
		defer s.mu.Unlock()
		who := map[processRole]string{roleWorker: "workers", roleGuard: "guards", roleFork: "forks", roleHandler: "handlers"}[c.Role]
		if verb != "work" {
			who = "clients"
		}
		switch {
		case s.now == nil || s.who != "everything" && s.who != who:
			return
		case !c.Is(s.now.calls), c.Is(writeCalls) && !c.OnFile():
			return
		}
		if s.met++; s.met < s.from || (s.met-s.from)%s.every != 0 {
			return
		}
		s.hits++
		s.lost[c.Path] = true
		c.Fail(s.now.errno)
	}
}

// start is the round's starter.
func (s *scarcity) start(c *exec.Cmd) (wait func(), err error) {
	s.mu.Lock()
	plain := s.plain
	if len(s.env) > 0 && c.Args[1] == "work" {
		c.Env = append(c.Env, s.env...)
		s.hits++
	}
	s.mu.Unlock()
	if plain {
		return func() { _ = c.Wait() }, c.Start()
	}
	t, err := startTrace(c, traceOptions{Hook: s.hook(c.Args[1])})
	return func() {
		err := t.Wait(5 * time.Minute)
		dbtest.Ensure(s.t, err == nil, "%s: %v", c.Args[1:], err)
	}, err
}

// looks are commands that clients also run. Without -v, monitor doesn't repeat what a worker has said.
var looks = [][]string{{"status"}, {"purge"}, {"monitor", "-v"}, {"activity"}, {"monitor", "-v", "--report", "REPORT"}}

// look runs commands whose output goes to a file. A command whose output is incomplete must not end well.
func (s *scarcity) look(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		file := filepath.Join(s.dir, fmt.Sprintf("look-%d", n))
		out := dbtest.Must(os.Create(file))(s.t)
		args := strings.Fields(strings.Replace(strings.Join(looks[n%len(looks)], " "), "REPORT", file+".html", 1))
		c, said := s.command(args...), bytes.Buffer{}
		c.Stdout, c.Stderr = out, &said
		wait, err := s.start(c)
		if err != nil {
			s.t.Error(err)
			continue
		}
		wait()
		_ = out.Close()
		code := c.ProcessState.ExitCode()
		s.mu.Lock()
		lost := s.lost[file]
		s.mu.Unlock()
		if lost && code == 0 {
			s.violates("hipq %s ended with 0 although its output was lost: %s", args[0], said.String())
		}
		if code > 1 || code < 0 || lost {
			s.heard(failed{strings.Join(args, " "), said.String(), code})
		}
		_, _ = os.Remove(file), os.Remove(file+".html")
	}
}

// crowd starts 60 ticks in the same moment.
func (s *scarcity) crowd() string {
	const many = 60
	s.add(s.rng, s.number*1e5+len(s.faults)*1e3, 5*many)
	s.mu.Lock()
	s.plain = true
	s.mu.Unlock()
	s.inject("%d ticks at once", many)
	var ticks [many]*tick
	for i := range ticks {
		ticks[i] = s.tick("work", "--run-for", "3s", "--concurrency", "16")
	}
	s.mu.Lock()
	s.plain = false
	s.mu.Unlock()
	for _, t := range ticks {
		<-t.ended
	}
	return "60 ticks"
}

func (s *scarcity) space() string { return s.limit("VmSize:", unix.RLIMIT_AS, 4<<20) }
func (s *scarcity) data() string  { return s.limit("VmData:", unix.RLIMIT_DATA, 1<<20) }

// limit leaves workers little memory beyond what they have. Go aborts without it, and handlers inherit it.
func (s *scarcity) limit(field string, resource int, more uint64) string {
	limited := map[int]unix.Rlimit{}
	more += uint64(s.rng.IntN(4 << 20))
	for end := time.Now().Add(time.Duration(1+s.rng.IntN(4)) * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, t := range s.running() {
			pid := t.cmd.Process.Pid
			n := uint64(statusOf(pid, field))
			var was unix.Rlimit
			if _, is := limited[pid]; is || n == 0 || unix.Prlimit(pid, resource, nil, &was) != nil {
				continue
			}
			s.harm(t)
			if unix.Prlimit(pid, resource, &unix.Rlimit{Cur: n<<10 + more, Max: was.Max}, nil) == nil {
				limited[pid] = was
			}
		}
	}
	for pid, was := range limited {
		_ = unix.Prlimit(pid, resource, &was, nil)
	}
	what := fmt.Sprintf("%d workers may have %d bytes more than %s", len(limited), more, strings.TrimSuffix(field, ":"))
	s.inject("%s", what)
	return what
}

// soft tells Go to use less memory than it needs.
func (s *scarcity) soft() string {
	s.mu.Lock()
	s.env, s.hits = []string{"GOMEMLIMIT=4MiB"}, 0
	s.mu.Unlock()
	time.Sleep(3 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.env = nil
	s.inject("%d ticks with GOMEMLIMIT=4MiB", s.hits)
	return "GOMEMLIMIT"
}
