//go:build linux && amd64

package proof

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

func init() {
	kinds = append(kinds, kind{
		name: "powercut", title: "Power cut of the SQLite file: any part of what was not synced is lost",
		must: "acknowledged and missing; lost, doubled, overlaps", faults: 125,
		turns: []engineTurns{{"sqlite", 2}}, round: powercut,
	})
}

// powercut lets clients and workers work on a file, and cuts the power again and again: all processes die, and the file
// goes on as a disk may have left it.
func powercut(r *round) {
	rng := r.random(10)
	disk := filepath.Join(r.dir, "disk")
	dbtest.OK(r.t, os.Mkdir(disk, 0o700))
	r.source, r.settings.limit, r.settings.groups = filepath.Join(disk, "hipq.db"), 0, nil
	// live lets f work, cuts the power, and returns when everything is dead.
	live := func(what string, f func(context.Context), after time.Duration) {
		base := filepath.Join(r.t.TempDir(), "base")
		dbtest.OK(r.t, os.CopyFS(base, os.DirFS(disk)))
		log := &changeLog{}
		runs := r.traced(traceOptions{Record: disk, Log: log})
		ctx, stop := context.WithCancel(r.t.Context())
		ended := make(chan struct{})
		go func() {
			f(ctx)
			close(ended)
		}()
		time.Sleep(after)
		r.inject("power cut %s", what)
		r.mu.Lock()
		r.dark = true
		for t := range runs {
			t.Kill()
		}
		r.mu.Unlock()
		stop()
		<-ended
		dbtest.OK(r.t, os.RemoveAll(disk))
		dbtest.OK(r.t, os.Mkdir(disk, 0o700))
		dbtest.OK(r.t, cutPower(base, log.Changes(), rng, disk))
		r.starter, r.dark = nil, false
	}
	r.configure(r.source)
	r.db = dbtest.Must(sql.Open("sqlite", "file:"+r.source+"?mode=ro&_pragma=busy_timeout(20000)"))(r.t)
	r.db.SetMaxIdleConns(-1) // no reader may outlive a cut, or keep commands from being the last that close the file
	live("during hipq init", func(context.Context) { _, _ = r.run("init", "--yes") }, time.Duration(rng.IntN(300))*time.Millisecond)
	dbtest.Must(r.run("init", "--yes"))(r.t)
	a := r.acting()
	for n := 0; n < 25 && time.Now().Before(r.until); n++ {
		live("of the file", func(ctx context.Context) {
			var crew sync.WaitGroup
			crew.Go(func() { r.cron(ctx, 3) })
			crew.Go(func() { r.answer(ctx) })
			crew.Go(func() { r.feed(ctx, workload{backlog: 60}) })
			crew.Go(func() { a.operate(ctx) })
			crew.Go(func() { a.watch(ctx) })
			crew.Wait()
		}, 300*time.Millisecond+time.Duration(rng.IntN(6000))*time.Millisecond)
	}
	r.live(workload{ticks: 3, backlog: 40}, time.Minute, func(ctx context.Context) { a.begin(ctx)() })
	r.found = a.judge()
}

// traced has all commands of the round traced from now on. runs are those that run.
func (r *round) traced(o traceOptions) (runs map[*trace]bool) {
	runs = map[*trace]bool{}
	r.starter = func(c *exec.Cmd) (wait func(), err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.dark {
			return nil, errors.New("the power is off")
		}
		t, err := startTrace(c, o)
		if err != nil {
			return nil, err
		}
		runs[t] = true
		return func() {
			err := t.Wait(5 * time.Minute)
			dbtest.Ensure(r.t, err == nil, "%s: %v", c.Args[1:], err)
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(runs, t)
		}, nil
	}
	return runs
}
