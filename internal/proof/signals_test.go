package proof

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// signals kills, stops and ends processes at random moments.
func signals(r *round) {
	rng := r.random(10)
	r.live(workload{ticks: 4, backlog: 60}, time.Minute, func(ctx context.Context) {
		for n := 0; n < 100 && time.Now().Before(r.until); n++ {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			all := r.processes()
			if len(all) == 0 {
				n--
				continue
			}
			p := all[rng.IntN(len(all))]
			if p.parent == os.Getpid() && !slices.ContainsFunc(r.running(), func(t *tick) bool { return t.cmd.Process.Pid == p.pid }) {
				n-- // it began just now, and its end would have no explanation
				continue
			}
			pause := time.Duration(rng.Int64N(int64(2 * lockFor)))
			k := rng.IntN(10)
			for _, t := range r.running() {
				if t.cmd.Process.Pid == p.pid {
					r.harm(t)
				}
				if k == 9 && (t.cmd.Process.Pid == p.pid || t.cmd.Process.Pid == p.parent) {
					r.pause(t, pause)
				}
			}
			r.idle.Excuse(time.Now().Add(pause + 2*lockFor)) // by then, others have its jobs
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
		}
	})
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
		default:
			continue
		}
		all = append(all, p)
	}
	return all
}
