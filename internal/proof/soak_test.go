package proof

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

func init() {
	kinds = append(kinds, kind{
		name: "soak", title: "None: load for 19 minutes, with purge and monitor",
		must:   "growth of rows, files, temporary files, memory, descriptors, connections and processes; lost, doubled",
		rounds: 1, turns: []engineTurns{{"sqlite", 3}, {"mariadb", 3}}, round: soak,
	})
}

// soaking measures a round again and again.
type soaking struct {
	*round
	// long are workers that live as long as the load.
	long  []*tick
	began time.Time
	// newest is the id of the newest entry of the activity that lost has read.
	newest int
	points map[string][]point
}

type point struct {
	at    time.Duration
	value float64
	// load is how many processes the worker had then; if it is 0, the number of ended jobs stands for it.
	load float64
}

// ended is how many jobs have ended since the last step.
const ended = "jobs ended in half a minute"

// perHour is how much may be added in an hour, beyond what may be chance. The processes leave out handlers, because their
// number varies; none may be left in the end.
var perHour = map[string]float64{
	"rows": 20, "bytes of files": 8 << 20, "bytes of memory": 8 << 20, "descriptors": 20, "temporary files": 2, "connections": 2, "processes": 2,
}

// soak lets two workers live on beside the usual ones, purges what is older than two minutes, and looks for growth.
func soak(r *round) {
	s := &soaking{round: r, began: time.Now(), points: map[string][]point{}}
	r.ownTemporary()
	r.judged = map[id]string{}
	text := string(dbtest.Must(os.ReadFile(r.config))(r.t))
	text = strings.ReplaceAll(text, "    job_types:\n", "    keep_finished: 1m\n    keep_failed: 1m\n    job_types:\n")
	dbtest.OK(r.t, os.WriteFile(r.config, []byte(text), 0o600))
	load := max(time.Until(r.until), turnMost) - time.Minute // a worker has all the memory that it needs only after minutes
	r.live(workload{ticks: 2, backlog: 40}, time.Minute, func(ctx context.Context) {
		for range 2 {
			t := r.tick("work", "--linger", "--run-for", fmt.Sprint(int(load.Seconds()), "s"), "--concurrency", "8")
			t.stopped = load
			s.long = append(s.long, t)
		}
		_, end := r.watch(s.began, s.long...)
		defer end()
		for n := 1; time.Since(s.began) < load-5*time.Second; n++ {
			if n%6 == 0 {
				s.step(n)
			}
			s.measure()
			time.Sleep(5 * time.Second)
		}
		for _, t := range s.long {
			<-t.ended
		}
	})
	s.lost()
	s.judge(load)
}

// lost finds attempts that lost their worker, because nothing happens to workers here.
func (s *soaking) lost() {
	dbtest.OK(s.t, s.each(fmt.Sprint("SELECT id, queue, job_id, error FROM proof_activity WHERE id > ", s.newest, " ORDER BY id"), func(rows *sql.Rows) error {
		var queue, text string
		var job int
		err := rows.Scan(&s.newest, &queue, &job, &text)
		if strings.HasPrefix(text, "worker lost") {
			s.found = append(s.found, fmt.Sprintf("%s %d: %s", queue, job, text))
		}
		return err
	}))
}

// step judges the jobs that have ended, so that they may be purged, and purges.
func (s *soaking) step(n int) {
	jobs, before := dbtest.Must(s.see())(s.t), len(s.judged)
	s.found = append(s.found, s.tooMany(jobs)...)
	for i, j := range jobs {
		if j.state != "final" || len(j.asks) == 0 {
			continue
		}
		for _, what := range j.judge() {
			s.found = append(s.found, what+": "+j.String())
		}
		s.judged[i] = j.name()
	}
	s.lost()
	// Purge keeps workers for two weeks, so those that ended a minute ago are made older.
	aged, from := "2000-01-01 00:00:00.000000", time.Now().UTC().Add(-time.Minute).Format(stamp6)
	dbtest.Must(s.db.Exec("UPDATE proof_workers SET start_time = ?, end_time = ? WHERE end_time < ?", aged, aged, from))(s.t)
	for _, args := range [][]string{{"monitor"}, {"purge", "--older-than", "2m", "--force"}, {"status"}, {"monitor", "--report", filepath.Join(s.dir, "report.html")}} {
		if _, err := s.run(args...); err != nil {
			s.heard(err)
		}
	}
	s.note(ended, "", float64(len(s.judged)-before), 0)
	for _, table := range s.tables() {
		rows := 0
		dbtest.OK(s.t, s.db.QueryRow("SELECT COUNT(*) FROM "+table).Scan(&rows))
		s.note("rows", "of "+table, float64(rows), 0)
	}
	s.note("bytes of files", "of the database", s.size(), 0)
}

// size is that of the database on disk.
func (s *soaking) size() (bytes float64) {
	if s.driver == "sqlite" {
		files, _ := filepath.Glob(s.source + "*")
		for _, f := range files {
			if info, err := os.Stat(f); err == nil {
				bytes += float64(info.Size())
			}
		}
		return bytes
	}
	query := "SELECT SUM(DATA_LENGTH + INDEX_LENGTH + DATA_FREE) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
	dbtest.OK(s.t, s.db.QueryRow(query).Scan(&bytes))
	return bytes
}

func (s *soaking) note(kind, of string, value, load float64) {
	name := strings.TrimSpace(kind + " " + of)
	s.points[name] = append(s.points[name], point{time.Since(s.began), value, load})
}

// measure looks at processes, connections and temporary files.
func (s *soaking) measure() {
	all, others, parent := s.processes(), 0, map[int]int{}
	for _, p := range all {
		parent[p.pid], others = p.parent, others+btoi(p.role != "handler")
	}
	s.note("processes", "", float64(others), 0)
	for n, t := range s.long {
		running := 1.0 // and its handlers, for which it has pipes
		for _, p := range all {
			running += float64(btoi(p.role == "handler" && (p.parent == t.cmd.Process.Pid || parent[p.parent] == t.cmd.Process.Pid)))
		}
		for _, p := range all {
			who := fmt.Sprintf("of %s %d", p.role, n+1)
			if p.pid != t.cmd.Process.Pid && (p.role != "guard" || p.parent != t.cmd.Process.Pid) {
				continue
			}
			fds := descriptors(p.pid)
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
			_, value, _ := strings.Cut(string(status), "VmRSS:")
			value, _, _ = strings.Cut(value, " kB")
			if kb, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && fds > 0 {
				s.note("descriptors", who, float64(fds), running)
				s.note("bytes of memory", who, float64(kb<<10), 0)
			}
		}
	}
	s.note("temporary files", "", float64(s.temporaryFiles()), 0)
	if s.driver == "mysql" {
		connections := 0
		dbtest.OK(s.t, s.db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE()").Scan(&connections))
		s.note("connections", "", float64(connections), 0)
	}
}

// ownTemporary gives the round's processes a folder of their own for temporary files.
func (r *round) ownTemporary() {
	dir := filepath.Join(r.dir, "tmp")
	dbtest.OK(r.t, os.Mkdir(dir, 0o700))
	r.t.Setenv("TMPDIR", dir)
}

// temporaryFiles counts files there, and beside the database and the config.
func (r *round) temporaryFiles() (n int) {
	for _, pattern := range []string{"/tmp/*", "/.*", "/*", "/.cache/*/*"} {
		some, _ := filepath.Glob(r.dir + pattern)
		n += len(slices.DeleteFunc(some, func(f string) bool { return strings.HasSuffix(f, ".ndjson") })) // the clients'
	}
	return n
}

// descriptors counts the open files of a process.
func descriptors(pid int) int {
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(fds)
}

// judge fits a line to each kind of points, without the first sixth. Its slope may exceed the bound by three standard errors,
// or if it doesn't go on in the second half, because then something has only filled up.
func (s *soaking) judge(load time.Duration) {
	jobs := s.points[ended]
	for _, name := range slices.Sorted(maps.Keys(s.points)) {
		var hours, values, busy []float64
		for _, p := range s.points[name] {
			if p.at < load/6 || p.at > load {
				continue
			}
			n, _ := slices.BinarySearchFunc(jobs, p.at, func(q point, at time.Duration) int { return cmp.Compare(q.at, at) })
			hours, values, busy = append(hours, p.at.Hours()), append(values, p.value), append(busy, cmp.Or(p.load, jobs[min(n, len(jobs)-1)].value))
		}
		dbtest.Require(s.t, len(values) > 9, "%s was measured only %d times: is the time too short?", name, len(values))
		slope, deviation := growth(hours, values, busy)
		text := fmt.Sprintf("%s: %.0f, per hour %+.1f ± %.1f", name, mean(values), slope, deviation)
		s.notes = append(s.notes, text)
		for kind, most := range perHour {
			lately, unsure := growth(hours[len(hours)/2:], values[len(hours)/2:], busy[len(hours)/2:])
			if strings.HasPrefix(name, kind) && slope-3*deviation > most && lately-unsure > most {
				s.found = append(s.found, "growth of "+text)
			}
		}
		s.t.Log(text)
	}
}

// growth is the slope of values over time, by least squares, if the load had been the same all the time, and its standard
// error. Neighbours are alike, so there are in truth fewer points.
func growth(hours, values, load []float64) (slope, deviation float64) {
	times, _ := rest(hours, load)
	values, _ = rest(values, load)
	errors, slope := rest(values, times)
	squares, alike := product(errors, errors), 0.0
	if squares > 0 {
		alike = min(max(0, product(errors[1:], errors)/squares), 0.95)
	}
	return slope, math.Sqrt(squares / float64(len(errors)-3) / product(times, times) * (1 + alike) / (1 - alike))
}

// rest is what a line over xs doesn't explain of ys, and the line's slope.
func rest(ys, xs []float64) (left []float64, slope float64) {
	x, y := mean(xs), mean(ys)
	var dx, dy []float64
	for i := range xs {
		dx, dy = append(dx, xs[i]-x), append(dy, ys[i]-y)
	}
	if square := product(dx, dx); square > 0 {
		slope = product(dx, dy) / square
	}
	for i := range dy {
		left = append(left, dy[i]-slope*dx[i])
	}
	return left, slope
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

func product(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// TestGrowth checks that a small leak is found among noise and load, and that noise isn't growth.
func TestGrowth(t *testing.T) {
	for _, leak := range []float64{0, 16 << 20} {
		rng := rand.New(rand.NewPCG(1, 1))
		var hours, values, load []float64
		noise := 0.0
		for n := range 190 {
			noise = 0.8*noise + rng.NormFloat64()*2e5
			hours, load = append(hours, float64(n)*5/3600), append(load, 600+100*rng.Float64())
			values = append(values, 5e7+noise+1e4*load[n]+leak*hours[n])
		}
		slope, deviation := growth(hours, values, load)
		dbtest.Ensure(t, (slope-3*deviation > perHour["bytes of memory"]) == (leak > 0), "%.0f bytes an hour: found %.0f ± %.0f", leak, slope, deviation)
	}
}
