package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// invariant is a rule that always holds. check returns its violations, and a summary of what was checked.
type invariant struct {
	name, says string
	check      func(*record) (violations []string, checked string)
}

// invariants have the names of the specification.
var invariants = []invariant{
	{"I1", "no accepted job is missing", noneMissing},
	{"I2", "what is final without an error was done", finishedWasDone},
	{"I3", "an attempt starts once", startsOnce},
	{"I3", "every further attempt has a reason", furtherAttemptsHaveReasons},
	{"I3", "no two workers run a job at once", noneAtOnce},
	{"§4", "a job that was lost with its worker runs again within its retry delay, a lock and a tick", lostRunAgain},
	{"§6", "on every error the retry handler is asked", askedOnEveryError},
	{"I4", "every job is final", allFinal},
	{"I5", "nothing leaves final", nothingLeavesFinal},
	{"I7", "attempts have no gaps and one outcome each, as the job says", activityAgrees},
	{"I9", "nothing is left of workers", nothingLeft},
	{"I9", "every worker has signed off or was found dead", allAccountedFor},
	{"I10", "a live key is there once", keysAreUnique},
}

// noneMissing (I1) checks that there are as many rows as hipq added, including each job, with the id that was printed.
func noneMissing(c *record) (bad []string, checked string) {
	rows := map[name]int{}
	for _, j := range c.jobs {
		rows[j.name()]++
	}
	if len(c.jobs) != c.book.rows {
		bad = append(bad, fmt.Sprintf("%d jobs were accepted, %d are there", c.book.rows, len(c.jobs)))
	}
	for n := range c.book.specs {
		if rows[n] < 1 || rows[n] > c.book.asked[n] {
			bad = append(bad, fmt.Sprintf("%v was enqueued %d times and is there %d times", n, c.book.asked[n], rows[n]))
		}
	}
	for n, id := range c.book.ids {
		if j := c.jobs[jobID{n.queue, id}]; j.name() != n {
			bad = append(bad, fmt.Sprintf("%v got id %d, which is %v", n, id, j.name()))
		}
	}
	return bad, fmt.Sprintf("%d jobs accepted, of %d enqueued with %d duplicates", c.book.rows, len(c.book.specs), c.duplicates())
}

func (c *record) duplicates() (n int) {
	for _, times := range c.book.asked {
		n += times - 1
	}
	return n
}

// finishedWasDone (I2) checks that the handler of the attempt that finished, with the row's token, got to its end.
func finishedWasDone(c *record) (bad []string, checked string) {
	finished := 0
	for id, j := range c.jobs {
		if j.state != "final" || j.error != "NONE" {
			continue
		}
		finished++
		// the answer may be for an attempt whose worker was killed before its handler began
		done := j.jobType == "sent" && c.answers[answered{j.queue, j.key, j.token}] == "complete" || slices.ContainsFunc(c.tries[id][j.attempt], func(e entry) bool {
			answered := j.jobType == "sent" && c.answers[answered{j.queue, j.key, e.token}] == "complete"
			return e.event == "done" && (e.token == j.token && j.jobType != "sent" || answered)
		})
		if !done || j.status != "finished" {
			bad = append(bad, "not done: "+c.story(id))
		}
	}
	return bad, fmt.Sprintf("%d jobs finished", finished)
}

// startsOnce (I3) checks that in the ledger each attempt starts once, and that the activity has its start.
func startsOnce(c *record) (bad []string, checked string) {
	starts := 0
	for id, tries := range c.tries {
		known := map[int]bool{}
		for _, e := range c.history[id] {
			if e.state == "starting" {
				known[e.attempt] = true
			}
		}
		for attempt, entries := range tries {
			n, asked := 0, 0
			for _, e := range entries {
				switch e.event {
				case "start":
					n++
				case "asked":
					asked++
				}
			}
			starts += n
			// a handler may be killed before it notes anything; then only its retry handler does
			if n > 1 || n == 0 && asked < len(entries) || !known[attempt] {
				bad = append(bad, fmt.Sprintf("attempt %d started %d times: %s", attempt, n, c.story(id)))
			}
		}
	}
	return bad, fmt.Sprintf("%d handlers started", starts)
}

// reasons are the possible errors of attempts, by their beginning. do is the step that explains the error. It is empty
// for an error from outside.
var reasons = []struct{ text, do string }{
	{"exit status 1", doExit1},
	{"Exception: exit status 1", doExit1},
	{"exit status 65", doExit65},
	{"worker lost: ", ""},
	{"worker lost its lock", ""},
	// by the handler itself, or by the guard of a stopped worker
	{"killed by signal 9 (SIGKILL)", ""},
	{"timeout after ", ""},
	{"interrupted", ""},
	{"not started: quarantine: ", ""}, // while the queue is divided
	{answeredNo, ""},
}

// furtherAttemptsHaveReasons (I3) checks that each failed attempt has an error that its handler's step or its worker's
// fate explains.
func furtherAttemptsHaveReasons(c *record) (bad []string, checked string) {
	count := map[string]int{}
	for id, history := range c.history {
		for _, e := range history {
			if !e.outcome() || e.state == "finished" {
				continue
			}
			why := ""
			for _, r := range reasons {
				if strings.HasPrefix(e.error, r.text) && (r.do == "" || c.book.spec(c.jobs[id].name()).step(e.attempt).Do == r.do) {
					why = strings.TrimSuffix(strings.TrimSpace(r.text), ":")
					break
				}
			}
			if dead, ok := strings.CutPrefix(e.error, "worker lost: "); ok && c.workers[strings.Fields(dead)[0]] != "error" {
				why = ""
			}
			if why == "" {
				bad = append(bad, fmt.Sprintf("attempt %d has no reason for its error: %s", e.attempt, c.story(id)))
			}
			count[why]++
		}
	}
	var words []string
	for _, why := range slices.Sorted(maps.Keys(count)) {
		words = append(words, fmt.Sprintf("%s %d", why, count[why]))
	}
	return bad, "errors: " + strings.Join(words, ", ")
}

// lostRunAgain checks that the attempt after a lost one begins soon. The bound allows for a busy machine and the jobs before it, because
// workers look more often than each minute.
func lostRunAgain(c *record) (bad []string, checked string) {
	const bound = time.Second + shortestLock + 2*time.Minute
	var waits []time.Duration
	for id, history := range c.history {
		var lost event
		for _, e := range history {
			switch {
			case e.state == "error" && strings.HasPrefix(e.error, "worker lost"):
				lost = e
			case e.state == "starting" && lost.attempt > 0 && e.attempt == lost.attempt+1:
				wait := e.at.Sub(lost.at)
				if waits = append(waits, wait); wait > bound {
					bad = append(bad, fmt.Sprintf("attempt %d began %s after the one before was lost: %s", e.attempt, wait, c.story(id)))
				}
			}
		}
	}
	if len(waits) == 0 {
		return bad, "no lost attempt"
	}
	slices.Sort(waits)
	return bad, fmt.Sprintf("%d lost attempts, the next after %s (median), %s at most", len(waits), waits[len(waits)/2].Round(time.Millisecond), waits[len(waits)-1].Round(time.Millisecond))
}

// noneAtOnce (I3) checks that an attempt's entries in the ledger precede those of the next, and that its handler began
// before its outcome was written.
func noneAtOnce(c *record) (bad []string, checked string) {
	again := 0
	for id, entries := range c.order {
		for i, e := range entries {
			if i > 0 && e.attempt < entries[i-1].attempt {
				bad = append(bad, fmt.Sprintf("attempt %d was still alive in attempt %d: %s", e.attempt, entries[i-1].attempt, c.story(id)))
			}
			if i > 0 && e.attempt > entries[i-1].attempt {
				again++
			}
		}
		for _, o := range c.history[id] {
			if !o.outcome() {
				continue
			}
			for _, e := range c.tries[id][o.attempt] {
				if e.event == "start" && e.at.Add(c.ahead).After(o.at.Add(c.tolerance)) {
					bad = append(bad, fmt.Sprintf("attempt %d began after it was over: %s", e.attempt, c.story(id)))
				}
			}
		}
	}
	return bad, fmt.Sprintf("%d further attempts", again)
}

// askedOnEveryError checks jobs with a retry handler, also after a crash during the decision.
func askedOnEveryError(c *record) (bad []string, checked string) {
	errors, again := 0, 0
	for id, history := range c.history {
		if c.jobs[id].jobType != "asked" {
			continue
		}
		for _, e := range history {
			if !e.outcome() || e.state == "finished" {
				continue
			}
			errors++
			times := 0
			for _, l := range c.tries[id][e.attempt] {
				if l.event == "asked" {
					times++
				}
			}
			if times > 1 {
				again++
			}
			if times == 0 || e.state != "error" {
				bad = append(bad, fmt.Sprintf("of attempt %d it was asked %d times: %s", e.attempt, times, c.story(id)))
			}
		}
	}
	return bad, fmt.Sprintf("%d errors, %d of them asked about again", errors, again)
}

// allFinal (I4) checks that every job is final.
func allFinal(c *record) (bad []string, checked string) {
	count := map[string]int{}
	for id, j := range c.jobs {
		count[j.status]++
		if j.state != "final" {
			bad = append(bad, "not final: "+c.story(id))
		}
	}
	return bad, fmt.Sprintf("%d finished, %d failed", count["finished"], count["failed"])
}

// nothingLeavesFinal (I5) checks that a final row never changes, and that no attempt follows the last.
func nothingLeavesFinal(c *record) (bad []string, checked string) {
	bad = slices.Sorted(maps.Keys(c.watch.left))
	for id, before := range c.watch.finals {
		if now := c.jobs[id]; now != before {
			bad = append(bad, fmt.Sprintf("was %+v: %s", before, c.story(id)))
		}
	}
	for id, j := range c.jobs {
		for attempt := range c.tries[id] {
			if attempt > j.attempt {
				bad = append(bad, fmt.Sprintf("attempt %d after the last: %s", attempt, c.story(id)))
			}
		}
	}
	return bad, fmt.Sprintf("%d looks, %d jobs seen final while others ran", c.watch.looks, len(c.watch.finals))
}

// activityAgrees (I7) checks for added, then for each attempt one start and one outcome. Only the last outcome is final,
// and it agrees with the row.
func activityAgrees(c *record) (bad []string, checked string) {
	for id, j := range c.jobs {
		last := "finished/%d"
		if j.error != "NONE" {
			last = "failed/%d"
		}
		want := []string{"added/0"}
		for a := 1; a <= j.attempt; a++ {
			want = append(want, fmt.Sprintf("starting/%d", a))
			if a < j.attempt {
				want = append(want, fmt.Sprintf("error/%d", a))
			} else {
				want = append(want, fmt.Sprintf(last, a))
			}
		}
		var got []string
		text := "NONE"
		for _, e := range c.history[id] {
			got = append(got, fmt.Sprintf("%s/%d", e.state, e.attempt))
			text = e.error
		}
		if n := len(got); j.jobType == "sent" && n > len(want) && got[n-2] == fmt.Sprintf("error/%d", j.attempt) {
			got = slices.Delete(got, n-2, n-1) // the answer came after the timeout
		}
		if !slices.Equal(got, want) || text != j.error || j.attempt < 1 {
			bad = append(bad, fmt.Sprintf("want %s: %s", strings.Join(want, " "), c.story(id)))
		}
	}
	events := 0
	for id, history := range c.history {
		events += len(history)
		if _, ok := c.jobs[id]; !ok {
			bad = append(bad, fmt.Sprintf("activity of a job that isn't there: %s: %v", id, history))
		}
	}
	return bad, fmt.Sprintf("%d jobs, %d rows of activity", len(c.jobs), events)
}

// nothingLeft (I9) checks that no processes, transactions or locks are left.
func nothingLeft(c *record) (bad []string, checked string) {
	bad = append(bad, c.left...)
	for id, j := range c.jobs {
		if job.Status(j.status).HasWorker() {
			bad = append(bad, "locked: "+c.story(id))
		}
	}
	return bad, fmt.Sprintf("%d processes of hipq work", len(c.fleet.over))
}

// allAccountedFor (I9) checks how workers ended. Killed workers have one error, as have those stopped while they started
// a handler. The others ended in order or because they lost their lock. A few may fail because a busy SQLite file kept
// them waiting.
func allAccountedFor(c *record) (bad []string, checked string) {
	lost, late, inVain := 0, 0, 0
	for _, w := range c.fleet.over {
		said := w.stderr.String()
		late += strings.Count(said, "lock lost: the outcome changes nothing")
		code := w.cmd.ProcessState.ExitCode()
		killed := w.killed || w.stopped && w.endedByKill()
		switch {
		case killed && w.id != "" && c.workers[w.id] != "error":
			bad = append(bad, fmt.Sprintf("worker %s was killed and is %q", w.id, c.workers[w.id]))
		case killed, code == 0, code == 75 && w.excused:
		case code == 78 && len(c.plan.reshard) > 0 && strings.Contains(said, "in this config: run hipq init"):
		case code == 75 && strings.Contains(said, "worker lost its lock"):
			lost++
		case code == 75 && c.fleet.hipq.driver == "sqlite" && strings.Contains(said, "waited for the database without success") && inVain*10 < len(c.fleet.over):
			inVain++
		default:
			bad = append(bad, fmt.Sprintf("%s ended with %s: %s", w.cmd, w.cmd.ProcessState, w.complaints()))
		}
	}
	for id, state := range c.workers {
		if state == "working" || state == "error" && c.deaths[id] != 1 || state == "finished" && c.deaths[id] != 0 {
			bad = append(bad, fmt.Sprintf("worker %s is %s, and died %d times", id, state, c.deaths[id]))
		}
	}
	if late == 0 && len(c.fleet.stops) > 0 && !testing.Short() { // a few stops may all be too short or too long
		bad = append(bad, "no late settlement was refused: the stops have lost their bite")
	}
	return bad, fmt.Sprintf("%d found dead; %d ended because their lock was lost, %d because the database was away; %d late settlements refused",
		len(c.deaths), lost, inVain, late)
}

// keysAreUnique (I10) checks that a live key was never seen twice, and that its job ended before its next job was added.
func keysAreUnique(c *record) (bad []string, checked string) {
	bad = slices.Sorted(maps.Keys(c.watch.twice))
	same := map[name][]jobID{}
	for id, j := range c.jobs {
		same[j.name()] = append(same[j.name()], id)
	}
	again := 0
	for n, ids := range same {
		slices.SortFunc(ids, func(a, b jobID) int { return int(a.id - b.id) })
		for i, id := range ids[1:] {
			again++
			before, after := c.history[ids[i]], c.history[id]
			if len(before) == 0 || len(after) == 0 || before[len(before)-1].id > after[0].id {
				bad = append(bad, fmt.Sprintf("%v came again while it was live:\n\t%s\n\t%s", n, c.story(ids[i]), c.story(id)))
			}
		}
	}
	return bad, fmt.Sprintf("%d duplicates refused, %d keys came again when they were free", c.duplicates()-again, again)
}
