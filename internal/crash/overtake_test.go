package crash

import (
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// contest is a job that waits for room beside a stream of later ones.
type contest struct {
	name string
	// limits are those of the queue: at most 2 at once, or a start in 5 s.
	limits string
	// room, waiter and many are the weights of the job that has the room, of the one that waits, and of the later ones.
	room, waiter, many int
}

const limitTwo, groupTwo, rateOne = "throttle_limit: 2", "throttle_groups: {by: data.group, limits: {'*': 2}}", "rate: 1/5s"

var contests = []contest{
	{"a first job in a group", groupTwo, 2, 2, 2},
	{"a heavy job in a group", groupTwo, 1, 2, 1},
	{"a first job in the queue", limitTwo, 2, 2, 2},
	{"a heavy job in the queue", limitTwo, 1, 2, 1},
	{"a first job under the rate", rateOne, 1, 1, 1},
}

// crews are how the two job types are served.
var crews = map[string][][]string{
	"one worker with lanes": {{}},
	"a worker for each":     {{"--type", "first", "--type", "many"}, {"--type", "waiter"}},
}

// longerThanAPoll is how long a worker may take to notice what another process has added, with time to spare.
const longerThanAPoll = 2500 * time.Millisecond

// TestWaiterIsNotOvertaken lets a job wait for the room that another has, and then adds many that come behind it. At most
// one of them may start before it.
func TestWaiterIsNotOvertaken(t *testing.T) {
	eachScene(t, func(t *testing.T, bin binaries, driver string) {
		for _, c := range contests {
			for crew, workers := range crews {
				t.Run(c.name+", "+crew, func(t *testing.T) {
					t.Parallel()
					s := c.begin(t, bin, driver, workers)
					s.stream(c)
					time.Sleep(longerThanAPoll) // they are noticed
					s.letGo()
					before, started := 0, false
					s.until(time.Minute, func() bool {
						before, started = s.overtakers()
						return started || before > 1
					})
					dbtest.Ensure(t, started && before <= 1, "%d later jobs have started before the one that waits", before)
				})
			}
		}
	})
}

// overtakers counts the jobs of the stream that have started before the waiter, and says whether it has.
func (s *scene) overtakers() (n int, started bool) {
	for _, r := range s.attempts() {
		switch r.jobType {
		case "waiter":
			return n, true
		case "many":
			n++
		}
	}
	return n, false
}

// TestWaiterIsForgotten ends the only worker that runs the type of a job that waits for room. It may hold up the others for
// 10 s, and for what a busy machine adds.
func TestWaiterIsForgotten(t *testing.T) {
	const most = 10*time.Second + 5*time.Second
	eachScene(t, func(t *testing.T, bin binaries, driver string) {
		for _, c := range contests {
			if c.room >= c.waiter {
				continue // nothing else has room either
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s := c.begin(t, bin, driver, crews["a worker for each"])
				s.idle.Dismiss(s.crew[1].Process.Pid)
				must(t, s.crew[1].Process.Signal(syscall.SIGTERM))
				began := time.Now()
				s.stream(c)
				s.until(time.Minute, func() bool { n, _ := s.overtakers(); return n > 0 })
				took := time.Since(began)
				dbtest.Ensure(t, took <= most, "the others have waited for %s", took)
				t.Logf("the others have waited for %s", took)
			})
		}
	})
}

// begin takes the room and lets the workers meet the waiter. Jobs of the stream have the lane of the first one, so the round
// that frees its room sees them.
func (c contest) begin(t *testing.T, bin binaries, driver string, workers [][]string) *scene {
	t.Helper()
	s := newScene(t, bin, driver, `worker: {concurrency: 8, lock_for: 30s}
queues:
  - name: mail
    `+c.limits+`
    job_types:
      - {name: first, takes long}
      - {name: many, takes 500ms}
      - {name: waiter, concurrency: 2, takes 10ms}
`)
	for _, args := range workers {
		s.work(append(args, "--linger", "--run-for", "5m")...)
	}
	s.awaitWorkers(len(workers))
	s.add(line("first", c.room, 1))
	s.until(time.Minute, func() bool { return len(s.attempts()) == 1 })
	s.add(line("waiter", c.waiter, 2))
	time.Sleep(longerThanAPoll)
	return s
}

// stream adds many jobs that come behind the waiter.
func (s *scene) stream(c contest) {
	many := make([]string, 40)
	for i := range many {
		many[i] = line("many", c.many, 100)
	}
	s.add(many...)
}
