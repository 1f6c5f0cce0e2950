package crash

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// workload is a number of jobs that a worker with enough slots does under a limit. What divides the jobs (lanes, shards)
// must not leave room unused.
type workload struct {
	name  string
	jobs  int
	takes time.Duration
	// queue and lane are the settings that divide the jobs.
	queue, lane string
	// slower is how much more time the jobs may take than without them. Beside other tests, as in short runs, it may be twice that:
	// a queue that stands still until the next poll takes four times as long.
	slower float64
	// long excludes it from short runs.
	long bool
}

// roomLimit is the throttle limit, or its sum over the shards.
const roomLimit = 6

var workloads = []workload{
	{name: "lanes of short jobs", jobs: 100, takes: 200 * time.Millisecond, lane: "concurrency: 4, ", slower: 1.2},
	{name: "lanes of long jobs", jobs: 60, takes: time.Second, lane: "concurrency: 4, ", slower: 1.2, long: true},
	{name: "shards", jobs: 150, takes: 300 * time.Millisecond, queue: "shards: 8", slower: 1 / 0.8},
}

// ideal is the time of jobs that always use all of the limit.
func (w workload) ideal() time.Duration { return w.takes * time.Duration(w.jobs*2/roomLimit) }

// TestRoomIsUsed compares a limited queue with lanes or shards with one without, at the same time.
func TestRoomIsUsed(t *testing.T) {
	eachScene(t, func(t *testing.T, bin binaries, driver string) {
		for _, w := range workloads {
			if w.long && testing.Short() {
				continue
			}
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				plain, divided := w.begin(t, bin, driver, "", ""), w.begin(t, bin, driver, w.queue, w.lane)
				var both sync.WaitGroup
				for _, s := range []*scene{plain, divided} {
					both.Go(func() { s.tick("--run-for", "5m", "--concurrency", "16") })
				}
				both.Wait()
				was, is := max(plain.took(), w.ideal()), divided.took()
				t.Logf("ideal %s, undivided %s, divided %s", w.ideal(), plain.took(), is)
				dbtest.Same(t, divided.done(), w.jobs, "jobs done")
				slower := w.slower
				if testing.Short() {
					slower *= 2
				}
				most := time.Duration(slower*float64(was)) + time.Second
				dbtest.Ensure(t, is <= most, "it took %s, and may take %s", is, most)
			})
		}
	})
}

// begin makes a queue with jobs of weights 1 to 3, of four types.
func (w workload) begin(t *testing.T, bin binaries, driver, queue, lane string) *scene {
	t.Helper()
	var types, jobs strings.Builder
	for n := range 4 {
		fmt.Fprintf(&types, "      - {name: type%d, %stakes %s}\n", n, lane, w.takes)
	}
	for n := range w.jobs {
		jobs.WriteString(line(fmt.Sprintf("type%d", n%4), 1+n%3, 100))
	}
	s := newScene(t, bin, driver, fmt.Sprintf("queues:\n  - name: mail\n    throttle_limit: %d\n    %s\n    job_types:\n%s", roomLimit, queue, &types))
	s.add(jobs.String())
	return s
}

// TestTickWaitsForRoom runs a tick while the last job of the tick before has all the room. It must wait for the room, whatever
// limits the jobs.
func TestTickWaitsForRoom(t *testing.T) {
	const jobs = 4
	const one = "throttle_groups: {by: data.group, limits: {'*': 1}}"
	eachScene(t, func(t *testing.T, bin binaries, driver string) {
		for name, c := range map[string]struct{ queue, lane string }{
			"limit":            {queue: "throttle_limit: 1"},
			"limit with lanes": {queue: "throttle_limit: 1", lane: "concurrency: 2, "},
			"group":            {queue: one},
			"group with lanes": {queue: one, lane: "concurrency: 2, "},
			"group in shards":  {queue: one + "\n    shards: 4"},
			"limit in shards":  {queue: "throttle_limit: 1\n    shards: 4"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newScene(t, bin, driver, fmt.Sprintf(`worker: {concurrency: 8, lock_for: 30s}
queues:
  - name: mail
    %s
    job_types:
      - {name: first, takes long}
      - {name: type0, %stakes 200ms}
      - {name: type1, %stakes 200ms}
`, c.queue, c.lane, c.lane))
				s.add(line("first", 1, 1))
				before := s.work("--max-jobs", "1")
				s.until(time.Minute, func() bool { return len(s.attempts()) == 1 })
				for n := range jobs {
					s.add(line(fmt.Sprintf("type%d", n%2), 1, 100))
				}
				tick := s.work("--run-for", "1m")
				select {
				case err := <-tick:
					t.Errorf("the tick has ended (%v) although %d jobs wait for the room of one that runs", err, jobs)
				case <-time.After(longerThanAPoll):
					s.letGo()
					must(t, errors.Join(<-before, <-tick))
					dbtest.Same(t, s.done(), 1+jobs, "jobs done")
				}
			})
		}
	})
}

// TestTickWaitsForSlots runs a tick for one queue while another worker has all slots of the host for another queue. The tick
// must not end before it had a slot for its jobs.
func TestTickWaitsForSlots(t *testing.T) {
	const long, short = 10, 3
	eachScene(t, func(t *testing.T, bin binaries, driver string) {
		s := newScene(t, bin, driver, `worker: {concurrency: 2}
queues:
  - name: files
    job_types: [{name: long, takes 1s}]
  - name: mail
    job_types: [{name: short, takes 100ms}]
`)
		s.add(strings.Repeat(lineOf("files", "long", 1, 100), long))
		s.work("files", "--linger", "--run-for", "5m")
		s.until(time.Minute, func() bool { return len(s.attempts()) > 1 })
		s.add(strings.Repeat(line("short", 1, 100), short))
		s.tick("mail", "--run-for", "1m")
		done := map[string]int{}
		for _, r := range s.attempts() {
			done[r.queue]++
		}
		dbtest.Ensure(t, done["mail"] == short, "the tick has ended, and %d of %d jobs of its queue have run, beside %d of the other one",
			done["mail"], short, done["files"])
	})
}

// TestUndecidedOfAnUnknownType: a client reports an error of a job whose type has left the config meanwhile. Its retry policy
// still decides, because otherwise the job has its key for ever.
func TestUndecidedOfAnUnknownType(t *testing.T) {
	eachScene(t, func(t *testing.T, bin binaries, driver string) {
		const config = "retry: {attempts: 1}\nqueues: [{name: mail, job_types: [{name: TYPE, async: true, takes 10ms}]}]\n"
		s := newScene(t, bin, driver, strings.Replace(config, "TYPE", "former", 1))
		s.mustRun(t, "enqueue", "mail", "former", "--key", "one")
		s.tick()
		s.mustRun(t, "fail", "mail", "former", "one", "--error", "no answer", "--retry")
		s.settings = strings.Replace(s.settings, "former", "present", 1)
		s.hipq = s.by(t, s.source)
		ended := s.until(15*time.Second, func() bool {
			s.tick()
			return len(dbtest.Must(s.db.jobs("mail", "WHERE state <> 'final'"))(t)) == 0
		})
		dbtest.Ensure(t, ended, "the job is left %s", dbtest.Must(s.db.jobs("mail", ""))(t)[0].status)
	})
}
