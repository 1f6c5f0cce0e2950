package crash

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// scene is an instance with a config of its own whose jobs only take time, to see when each of them starts.
type scene struct {
	hipq
	t      *testing.T
	db     *database
	source string
	// files counts the files of jobs.
	files int
	// crew are the workers, in the order of their starts.
	crew []*exec.Cmd
	// letGo ends the jobs that wait for it.
	letGo func()
	// idle finds out when the workers stand still.
	idle *dbtest.Watch
}

// takes is a handler in the settings of a scene that only takes this time, or waits until the scene lets it go. It costs the
// machine little, so that many scenes can run at once.
var takes = regexp.MustCompile(`takes ([0-9.]+m?s|long)`)

func newScene(t *testing.T, bin binaries, driver, settings string) *scene {
	t.Helper()
	source, gate := sourceOf(t, driver), make(chan struct{})
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, _ := time.ParseDuration(filepath.Base(r.URL.Path))
		over := time.After(d)
		if d == 0 {
			over = nil
		}
		select {
		case <-over:
		case <-gate:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(endpoint.Close)
	settings = takes.ReplaceAllString(settings, "handler: {http: {url: '"+endpoint.URL+"/$1', networks: [127.0.0.0/8]}}")
	s := &scene{
		t: t, source: source, hipq: hipq{binaries: bin.own(t), driver: driver, settings: settings}, db: openDatabase(t, driver, source),
		letGo: sync.OnceFunc(func() { close(gate) }),
	}
	t.Cleanup(s.letGo)
	s.hipq = s.by(t, source)
	s.mustRun(t, "init")
	s.idle = dbtest.NewWatch(t, s.db.DB, s.config)
	end := s.idle.Begin()
	t.Cleanup(func() {
		bad, looks := end()
		for _, b := range bad {
			t.Error(b)
		}
		t.Logf("%d looks for a standstill", looks)
	})
	return s
}

// line is a job of the first queue as NDJSON.
func line(jobType string, weight, priority int) string {
	return lineOf(queues[0], jobType, weight, priority)
}

func lineOf(queue, jobType string, weight, priority int) string {
	return fmt.Sprintf(`{"queue":%q,"job_type":%q,"throttle_factor":%d,"priority":%d,"job_data":{"group":"one"}}`+"\n", queue, jobType, weight, priority)
}

// add enqueues jobs at once; their ids have this order.
func (s *scene) add(lines ...string) {
	s.t.Helper()
	s.files++
	file := filepath.Join(filepath.Dir(s.config), fmt.Sprintf("jobs-%d", s.files))
	must(s.t, os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600))
	s.mustRun(s.t, "enqueue", "--ndjson", file)
}

// work starts a worker, whose end the channel tells.
func (s *scene) work(args ...string) <-chan error {
	s.t.Helper()
	c := s.command(append([]string{"work"}, args...)...)
	said := &strings.Builder{}
	c.Stderr = said
	must(s.t, c.Start())
	s.crew = append(s.crew, c)
	s.idle.Hire(c.Process.Pid, args)
	ended := make(chan error, 1)
	gone := make(chan struct{})
	go func() {
		err := c.Wait()
		if err != nil {
			err = fmt.Errorf("hipq work: %w: %s", err, said)
		}
		ended <- err
		close(gone)
	}()
	s.t.Cleanup(func() {
		s.idle.Dismiss(c.Process.Pid)
		_ = c.Process.Signal(syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(20 * time.Second):
			_ = c.Process.Kill()
			<-gone
		}
	})
	return ended
}

// tick runs a worker to its end.
func (s *scene) tick(args ...string) {
	s.t.Helper()
	must(s.t, <-s.work(args...))
}

// ran is a job's attempt by the activity. end is zero while it runs.
type ran struct {
	jobID
	jobType    string
	start, end time.Time
}

// attempts returns what has started, in this order.
func (s *scene) attempts() (list []ran) {
	s.t.Helper()
	at := map[string]int{}
	query := "SELECT queue, job_id, job_type, attempt, state, at FROM " + activityTable +
		" WHERE kind = 'job' AND state IN ('starting', 'finished') ORDER BY id"
	must(s.t, s.db.each(query, nil, func(rows *sql.Rows) error {
		var r ran
		var state, text string
		attempt := 0
		err := rows.Scan(&r.queue, &r.id, &r.jobType, &attempt, &state, &text)
		when, e := time.Parse(layout, text)
		must(s.t, e)
		key := fmt.Sprint(r.jobID, attempt)
		if r.start = when; state == "starting" {
			at[key] = len(list)
			list = append(list, r)
		} else if i, started := at[key]; started {
			list[i].end = when
		}
		return err
	}))
	slices.SortStableFunc(list, func(a, b ran) int { return a.start.Compare(b.start) })
	return list
}

// took is the time from the first start to the last end.
func (s *scene) took() time.Duration {
	s.t.Helper()
	list := s.attempts()
	dbtest.Require(s.t, len(list) > 0, "nothing has run")
	last := slices.MaxFunc(list, func(a, b ran) int { return a.end.Compare(b.end) })
	return last.end.Sub(list[0].start)
}

// done counts the jobs that have ended.
func (s *scene) done() (n int) {
	for _, r := range s.attempts() {
		if !r.end.IsZero() {
			n++
		}
	}
	return n
}

// until waits for a condition and reports whether it came true in time.
func (s *scene) until(patience time.Duration, holds func() bool) bool {
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return holds()
}

// awaitWorkers waits until so many workers have registered.
func (s *scene) awaitWorkers(n int) {
	s.t.Helper()
	ok := s.until(time.Minute, func() bool { return dbtest.Must(s.db.working())(s.t) >= n })
	dbtest.Require(s.t, ok, "the workers don't begin")
}

// eachScene runs a test on both engines, beside all others.
func eachScene(t *testing.T, test func(t *testing.T, bin binaries, driver string)) {
	t.Parallel()
	bin := build(t)
	for _, driver := range []string{"sqlite", "mysql"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, bin, driver)
		})
	}
}
