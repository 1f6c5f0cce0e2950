package proof

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// signals kills, stops and ends processes at random moments. Meanwhile workers in SQL do jobs too, and an operator changes the
// number of shards, if there are some.
func signals(r *round) {
	rng, inSQL := r.random(10), r.sqlWorkers()
	r.late = len(inSQL.commands) > 0
	var late sync.WaitGroup
	r.live(workload{ticks: 4, backlog: 60}, time.Minute, func(ctx context.Context) {
		working, rest := context.WithCancel(ctx)
		var crew sync.WaitGroup
		crew.Go(func() { inSQL.keep(working) })
		crew.Go(func() { r.divide(working) })
		crew.Go(func() { r.finals(working) })
		late.Go(func() { r.comeLate(ctx) }) // until the last job has ended
		crew.Go(func() { r.pauses(working) })
		defer crew.Wait()
		defer rest()
		for n := 0; n < 100 && time.Now().Before(r.until); n++ {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			if !r.strike(rng) {
				n--
			}
		}
		inSQL.bites()
	})
	late.Wait()
	r.wholeShards()
	r.allAsked()
}

// defaults is signals with the locks, the grace and the delay of retries that hipq has by default.
func defaults(r *round) {
	rng := r.random(10)
	r.live(workload{ticks: 3, backlog: 60}, 5*time.Minute, func(context.Context) {
		for over := time.Now().Add(6 * time.Minute); time.Now().Before(over); time.Sleep(time.Duration(rng.IntN(8_000)) * time.Millisecond) {
			r.strike(rng)
		}
	})
	r.allAsked()
}

// strike kills, ends or stops a process, if there is one.
func (r *round) strike(rng *rand.Rand) bool {
	all := r.processes()
	if r.turn.kind.byDefault && rng.IntN(2) == 0 { // many handlers run beside few workers
		all = slices.DeleteFunc(all, func(p process) bool { return p.role != "worker" })
	}
	if len(all) == 0 {
		return false
	}
	p := all[rng.IntN(len(all))]
	if p.parent == os.Getpid() && !slices.ContainsFunc(r.running(), func(t *tick) bool { return t.cmd.Process.Pid == p.pid }) {
		return false // it began just now, and its end would have no explanation
	}
	pause := time.Duration(rng.Int64N(int64(2 * r.lock())))
	k := rng.IntN(10)
	if p.role == "worker in SQL" {
		k = rng.IntN(9) // none kills one that is stopped for longer than its lock, and its handler is itself
	}
	for _, t := range r.running() {
		if t.cmd.Process.Pid == p.pid {
			r.harm(t)
		}
		if k == 9 && (t.cmd.Process.Pid == p.pid || t.cmd.Process.Pid == p.parent) {
			r.pause(t, pause)
		}
	}
	switch {
	case k < 7:
		r.inject("SIGKILL of %s", p)
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	case k < 9:
		r.inject("SIGTERM of %s", p)
		_ = syscall.Kill(p.pid, syscall.SIGTERM)
	default:
		r.inject("SIGSTOP of %s for %s", p, pause.Round(time.Millisecond))
		_ = syscall.Kill(p.pid, syscall.SIGSTOP)
		time.AfterFunc(pause, func() { _ = syscall.Kill(p.pid, syscall.SIGCONT) })
	}
	return true
}

// divide changes the number of the first queue's shards like an operator, until ctx ends: another config, and hipq init while
// workers with the config before go on.
func (r *round) divide(ctx context.Context) {
	if r.settings.shards == 1 {
		return
	}
	rng := r.random(7)
	r.blames = regexp.MustCompile("in this config: run hipq init")
	for {
		select {
		case <-ctx.Done():
			dbtest.Must(r.run("init", "--yes"))(r.t)
			return
		case <-time.After(2*time.Second + time.Duration(rng.IntN(2000))*time.Millisecond):
		}
		r.settings.shards = 1 + rng.IntN(8)
		r.configure(r.source)
		_, err := r.run("init", "--yes")
		r.heard(err)
	}
}

// wholeShards checks the shards of the first queue: their number, and that they share no more than the limit and the rate.
func (r *round) wholeShards() {
	var n, share, rate int
	query := "SELECT COUNT(*), COALESCE(SUM(share), 0), COALESCE(SUM(rate_share), 0) FROM proof_shards WHERE queue = '" + queues[0] + "'"
	dbtest.OK(r.t, r.db.QueryRow(query).Scan(&n, &share, &rate))
	if n != r.settings.shards || r.settings.limit > 0 && share > r.settings.limit || r.settings.rate > 0 && rate > r.settings.rate {
		r.violates("%d shards with %d of the limit and %d of the rate: %+v", n, share, rate, r.settings)
	}
}

// finals looks at the final jobs until ctx ends: none may change.
func (r *round) finals(ctx context.Context) {
	known := map[string]string{}
	for ; ctx.Err() == nil; time.Sleep(250 * time.Millisecond) {
		for _, q := range queues {
			rows, err := dbtest.Rows(ctx, r.db, "SELECT id, status, error, result, attempt, attempt_token, update_time FROM proof_"+q+" WHERE state = 'final'")
			if err != nil {
				if ctx.Err() == nil {
					r.violates("%v", err)
				}
				return
			}
			for _, row := range rows {
				name, now := q+" "+row[0].String, fmt.Sprint(row)
				if before := known[name]; before != "" && before != now {
					r.violates("%s was final as %s, and is %s", name, before, now)
				}
				known[name] = now
			}
		}
	}
}

// comeLate lets workers go on that a handler has stopped, when another worker runs its job: they hear of its end too late.
func (r *round) comeLate(ctx context.Context) {
	ledger := dbtest.Must(os.Open(r.ledger))(r.t)
	defer ledger.Close()
	var all sync.WaitGroup
	defer all.Wait()
	for lines, line := bufio.NewReader(ledger), ""; ctx.Err() == nil; {
		more, err := lines.ReadString('\n')
		if line += more; err != nil && !strings.HasSuffix(line, " .") {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if n, err := readNote(line); err == nil && n.event == "stop" {
			all.Go(func() { r.letGoOn(n) })
		}
		line = ""
	}
}

// letGoOn waits for 10 s at most: what has stopped may hold SQLite's file. It doesn't wait if the worker is alone.
func (r *round) letGoOn(n note) {
	for _, t := range r.running() {
		if t.cmd.Process.Pid == n.parent && !r.alone.Load() {
			r.inject("SIGSTOP of worker %d until another runs its job %d of %s", n.parent, n.id.id, n.queue)
			r.harm(t)
			r.pause(t, 2*lockFor)
		}
	}
	query := fmt.Sprintf("SELECT COUNT(*) FROM proof_%s WHERE id = %d AND attempt > %d", n.queue, n.id.id, n.attempt)
	for limit, taken := time.Now().Add(2*lockFor), 0; taken == 0 && !r.alone.Load() && time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		_ = r.db.QueryRow(query).Scan(&taken)
	}
	_ = syscall.Kill(n.parent, syscall.SIGCONT)
}

// pauses pauses a queue now and then until ctx ends: once the command has ended, nothing may start there.
func (r *round) pauses(ctx context.Context) {
	rng := r.random(8)
	for ; ctx.Err() == nil; time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond) {
		q := queues[rng.IntN(len(queues))]
		_, err := r.run("queues", "pause", q)
		if started := r.starts(q); r.heard(err) == accepted {
			time.Sleep(200 * time.Millisecond)
			if now := r.starts(q); now != started {
				r.violates("%d attempts of %s started while it was paused", now-started, q)
			}
		}
		for range 5 { // each may end with 75
			if _, err = r.run("queues", "resume", q); r.heard(err) == accepted {
				break
			}
		}
	}
}

// starts counts the attempts of a queue that have started.
func (r *round) starts(queue string) (n int) {
	dbtest.OK(r.t, r.db.QueryRow("SELECT COUNT(*) FROM proof_activity WHERE kind = 'job' AND state = 'starting' AND queue = '"+queue+"'").Scan(&n))
	return n
}

// allAsked checks that retry handlers were asked about each error, but those that a fault ended before they began.
func (r *round) allAsked() {
	ended, unasked := 0, []string{}
	for _, f := range r.faults {
		if strings.Contains(f.What, " of handler ") {
			ended++
		}
	}
	for _, j := range dbtest.Must(r.see())(r.t) {
		for _, e := range j.log {
			isAbout := func(n note) bool { return n.attempt == e.attempt && n.event == "asked" }
			if j.jobType == "asked" && e.error != "NONE" && !slices.ContainsFunc(j.notes, isAbout) {
				unasked = append(unasked, j.String())
			}
		}
	}
	if len(unasked) > ended {
		r.violates("%d retry handlers were not asked, and only %d handlers were harmed:\n%s", len(unasked), ended, strings.Join(unasked, "\n"))
	}
}

// process is a process of the round.
type process struct {
	pid, parent int
	role        string
}

func (p process) String() string { return fmt.Sprintf("%s %d of %d", p.role, p.pid, p.parent) }

// processes finds the round's workers, guards and handlers in /proc.
func (r *round) processes() (all []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		p := process{}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		p.parent, _ = strconv.Atoi(fields[1])
		switch {
		case exe == r.bin.handler && strings.Contains(string(argv), r.ledger):
			p.role = "handler"
		case exe == r.bin.hipq && (strings.Contains(string(argv), "\x00work\x00") || strings.Contains(string(argv), "\x00quarantine\x00")):
			p.role = "worker"
		case exe == r.bin.hipq && strings.Contains(string(argv), "\x00guard\x00"):
			p.role = "guard"
		case exe != r.bin.hipq && exe != r.bin.handler && strings.Contains(string(env), "HIPQ_CONFIG="+r.config+"\x00"):
			p.role = "worker in SQL"
		default:
			continue
		}
		all = append(all, p)
	}
	return all
}
