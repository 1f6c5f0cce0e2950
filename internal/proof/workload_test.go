package proof

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// workload says how busy a round is.
type workload struct {
	// ticks overlap. backlog jobs wait at most. clients, if not 0, add jobs at once.
	ticks, backlog, clients int
}

// longest is how long a handler takes at most, unless it hangs.
const longest = 2 * time.Minute

// ask is a job as a client asked for it, and what the client was told.
type ask struct {
	queue, jobType, key string
	weight              int
	Steps               []step `json:"steps"`
	// told is whether the job was accepted. excuse is an error that a client made.
	told   told
	excuse string
}

type told int

const (
	unknown told = iota // no answer, or one that leaves it open
	accepted
)

// step is what a handler does in one attempt. The last step repeats for all further attempts.
type step struct {
	Do string `json:"do"`
	MS int    `json:"ms,omitempty"`
	// Deaf handlers ignore SIGTERM.
	Deaf bool `json:"deaf,omitempty"`
}

func (a ask) step(attempt int) step { return a.Steps[min(attempt, len(a.Steps))-1] }

func (a ask) data() string {
	text, err := json.Marshal(map[string]any{"steps": a.Steps})
	if err != nil {
		panic(err) // steps always encode
	}
	return string(text)
}

// invent makes up a job. Most are short; the others last long enough to lose their worker, or fail.
func (r *round) invent(rng *rand.Rand, n int) ask {
	a := ask{queue: queues[rng.IntN(len(queues))], jobType: "plain", key: fmt.Sprintf("job-%06d", n), weight: 1}
	if r.late && n%30 == 0 {
		a.Steps = []step{{Do: "late"}, {Do: "fail", MS: 1500}, {Do: "done"}}
		return a
	}
	if r.turn.kind.byDefault && n%40 == 0 {
		a.queue = queues[btoi(n%120 > 0)] // the first has the limits
		a.Steps = []step{{Do: "done", MS: int(longest.Milliseconds()) * (1 + rng.IntN(6)) / 6, Deaf: rng.IntN(2) == 0}}
		return a
	}
	if r.turn.kind.name == "signals" && !r.alone.Load() && n%200 == 100 {
		a.Steps = []step{{Do: "stop"}, {Do: "fail", MS: 1500}, {Do: "done"}}
		return a
	}
	if r.lasting && n%20 == 0 {
		a.queue, a.Steps = queues[1], []step{{Do: "done", MS: 1000 + rng.IntN(8000)}} // that has no limit
		return a
	}
	done, times := step{Do: "done", MS: rng.IntN(30)}, 1+rng.IntN(2)
	switch p := rng.IntN(100); {
	case p < 40:
		a.jobType = "stream"
	case p < 50:
		done.MS = 100 + rng.IntN(300)
	case p < 55:
		a.jobType = "sent"
	case p < 60:
		a.jobType = "brief"
		if p < 57 {
			a.Steps = []step{{Do: "hang"}}
		}
	case p < 65:
		a.jobType, times = "fragile", rng.IntN(fragileAttempts+1)
	case p < 70:
		a.jobType = "asked"
	case p < 73:
		a.weight = rng.IntN(9)
	}
	if a.jobType == "asked" || a.jobType == "fragile" || rng.IntN(8) == 0 {
		for range times {
			a.Steps = append(a.Steps, step{Do: []string{"fail", "fail", "crash", "fatal"}[rng.IntN(4)], MS: rng.IntN(20)})
		}
		if a.jobType == "stream" { // a crash would take other jobs of the program along
			for i := range a.Steps {
				a.Steps[i].Do = strings.Replace(a.Steps[i].Do, "crash", "fail", 1)
			}
		}
	}
	a.Steps = append(a.Steps, done)
	if r.alone.Load() && a.jobType == "sent" {
		a.jobType = "plain"
	}
	return a
}

// add adds n jobs at once.
func (r *round) add(rng *rand.Rand, first, n int) {
	asks := make([]ask, n)
	for i := range asks {
		asks[i] = r.invent(rng, first+i)
	}
	told := r.enqueueFile(asks)
	for i := range asks {
		asks[i].told = told
	}
	r.asked(asks...)
}

// feed adds jobs in all ways while fewer than the backlog wait, until ctx ends.
func (r *round) feed(ctx context.Context, size workload) {
	for ; ctx.Err() == nil; time.Sleep(r.every(0)) {
		open, err := r.open()
		if err != nil || open >= size.backlog {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		some, how := r.inventSome(size.backlog)
		switch how {
		case 0:
			for _, a := range some[:1] {
				a.told = r.insert(a)
				r.asked(a)
			}
		case 1:
			for _, a := range some[:1] {
				a.told = r.enqueue(a)
				r.asked(a)
			}
		case 2:
			r.rivals(some[0])
		default:
			t := r.enqueueFile(some)
			for i := range some {
				some[i].told = t
			}
			r.asked(some...)
		}
	}
}

// inventSome makes up some jobs for a backlog, and a way to add them.
func (r *round) inventSome(backlog int) (some []ask, how int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rng := r.inventor
	some = make([]ask, 1+rng.IntN(max(1, backlog/2)))
	for i := range some {
		r.made++
		some[i] = r.invent(rng, r.made)
	}
	if len(some) > 1 {
		some = append(some, some[0]) // a duplicate
	}
	return some, rng.IntN(5)
}

// rivals adds one job three times at once, as an application whose requests are repeated does.
func (r *round) rivals(a ask) {
	var all sync.WaitGroup
	for _, add := range []func(ask) told{r.insert, r.insert, r.enqueue} {
		all.Go(func() {
			one := a
			one.told = add(a)
			r.asked(one)
		})
	}
	all.Wait()
}

func (r *round) asked(a ...ask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asks = append(r.asks, a...)
}

// heard turns a command's end into what its client knows. Exit code 75 may mean that the commit's answer was lost; all
// other errors are faults here.
func (r *round) heard(err error) told {
	var f failed
	switch {
	case err == nil:
		return accepted
	case errors.As(err, &f) && (f.code == 75 && r.says.MatchString(f.said) || f.code == exitKilled && r.isDark() || r.blamed(f.said)):
	default:
		r.violates("%v", err)
	}
	return unknown
}

func (r *round) allAsks() []ask {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asks)
}

func (r *round) enqueue(a ask) told {
	_, err := r.run("enqueue", a.queue, a.jobType, "--key", a.key, "--data", a.data(), "--throttle-factor", fmt.Sprint(a.weight))
	return r.heard(err)
}

func (r *round) enqueueFile(asks []ask) told {
	var text strings.Builder
	for _, a := range asks {
		line := dbtest.Must(json.Marshal(map[string]any{
			"queue": a.queue, "job_type": a.jobType, "job_key": a.key, "throttle_factor": a.weight,
			"job_data": json.RawMessage(a.data()),
		}))(r.t)
		text.Write(append(line, '\n'))
	}
	file := filepath.Join(r.dir, asks[0].key+".ndjson")
	dbtest.OK(r.t, os.WriteFile(file, []byte(text.String()), 0o600))
	_, err := r.run("enqueue", "--ndjson", file)
	return r.heard(err)
}

// insert adds a row as an application does, with a transaction of its own.
func (r *round) insert(a ask) told {
	into := "INSERT INTO proof_" + a.queue + " (job_type, job_key, job_data, throttle_factor) VALUES "
	if r.starter != nil && r.driver == "sqlite" { // the clock and the file are those of traced processes
		row := fmt.Sprintf("('%s', '%s', '%s', %d)", a.jobType, a.key, a.data(), a.weight)
		c := exec.Command(dbtest.Client(r.t, "sqlite3"), "-cmd", ".timeout 20000", r.source, into+row)
		if wait, err := r.start(c); err == nil {
			if wait(); c.ProcessState.Success() {
				return accepted
			}
		}
		return unknown
	}
	if _, err := r.db.Exec(into+"(?, ?, ?, ?)", a.jobType, a.key, a.data(), a.weight); err != nil {
		return unknown
	}
	return accepted
}

// answer settles asynchronous jobs from outside until ctx ends, most in time.
func (r *round) answer(ctx context.Context) {
	rng := r.random(3)
	for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		for _, q := range queues {
			var keys []string
			_ = r.each("SELECT job_key FROM proof_"+q+" WHERE job_type = 'sent' AND status = 'awaiting' LIMIT 5", func(rows *sql.Rows) error {
				keys = append(keys, "")
				return rows.Scan(&keys[len(keys)-1])
			})
			for _, key := range keys {
				if rng.IntN(8) > 0 {
					r.complete(q, key)
				}
			}
		}
	}
}

// complete tells hipq that an asynchronous job is done. It may be refused only if the job has failed.
func (r *round) complete(queue, key string) {
	r.mu.Lock()
	r.answers[queue+" "+key] = true
	r.mu.Unlock()
	_, err := r.run("complete", queue, "sent", key)
	var f failed
	if !errors.As(err, &f) || f.code != 1 {
		r.heard(err)
		return
	}
	n := 0
	if e := r.db.QueryRow("SELECT COUNT(*) FROM proof_" + queue + " WHERE job_key = '" + key + "' AND state = 'final' AND error <> 'NONE'").Scan(&n); e == nil && n == 0 {
		r.violates("%v, although the job has not failed", err)
	}
}

// gauge looks at the committed rows until ctx ends, for moments at which they exceed the throttle limit.
func (r *round) gauge(ctx context.Context) {
	if r.settings.limit < 1 {
		return
	}
	query := "SELECT COALESCE(SUM(throttle_factor), 0), COUNT(*) FROM proof_" + queues[0] +
		" WHERE status IN ('locked', 'running', 'answered', 'awaiting') AND throttle_factor > 0"
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		var weight, n int
		if err := r.db.QueryRowContext(ctx, query).Scan(&weight, &n); err == nil && weight > r.settings.limit && n > 1 {
			r.violates("%d jobs of weight %d at once under a limit of %d", n, weight, r.settings.limit)
		}
	}
}
