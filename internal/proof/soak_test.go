package proof

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

func init() {
	kinds = append(kinds, kind{
		name: "soak", title: "An hour of load without faults, in turns of 20 minutes, with purge and monitor",
		must:   "growth of rows, files, temporary files, memory, descriptors, connections and processes; lost, doubled",
		rounds: 1, turns: []engineTurns{{"sqlite", 3}, {"mariadb", 3}}, round: soak,
	})
}

// soaking measures a round again and again.
type soaking struct {
	*round
	// long are workers that live as long as the load.
	long []*tick
	// temporary is the folder of temporary files.
	temporary string
	began     time.Time
	points    map[string][]point
}

type point struct {
	at    time.Duration
	value float64
}

// ended is how many jobs have ended since the last step.
const ended = "jobs ended in half a minute"

// slack is how much more the second half may have, beyond a quarter, because some is always by chance.
var slack = map[string]float64{
	"rows": 100, "bytes of files": 2 << 20, "bytes of memory": 4 << 20, "descriptors": 4, "temporary files": 2, "connections": 5, "processes": 6,
}

// soak lets two workers live on beside the usual ones, purges what is older than a minute, and compares the second half of
// the time with the first.
func soak(r *round) {
	s := &soaking{round: r, temporary: filepath.Join(r.dir, "tmp"), began: time.Now(), points: map[string][]point{}}
	dbtest.OK(r.t, os.Mkdir(s.temporary, 0o700))
	r.t.Setenv("TMPDIR", s.temporary)
	r.judged = map[id]string{}
	text := string(dbtest.Must(os.ReadFile(r.config))(r.t))
	text = strings.ReplaceAll(text, "    job_types:\n", "    keep_finished: 1m\n    keep_failed: 1m\n    job_types:\n")
	dbtest.OK(r.t, os.WriteFile(r.config, []byte(text), 0o600))
	load := time.Until(r.until) - time.Minute
	r.live(workload{ticks: 2, backlog: 40}, time.Minute, func(ctx context.Context) {
		for range 2 {
			t := r.tick("work", "--linger", "--run-for", fmt.Sprint(int(load.Seconds()), "s"), "--concurrency", "8")
			t.stopped = load
			s.long = append(s.long, t)
		}
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
	s.judge(load)
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
	// Purge keeps workers for two weeks, so those that ended a minute ago are made older.
	aged, from := "2000-01-01 00:00:00.000000", time.Now().UTC().Add(-time.Minute).Format("2006-01-02 15:04:05.000000")
	dbtest.Must(s.db.Exec("UPDATE proof_workers SET start_time = ?, end_time = ? WHERE end_time < ?", aged, aged, from))(s.t)
	for _, args := range [][]string{{"monitor"}, {"purge", "--older-than", "1m", "--force"}, {"status"}, {"monitor", "--report", filepath.Join(s.dir, "report.html")}} {
		if _, err := s.run(args...); err != nil {
			s.heard(err)
		}
	}
	s.note(ended, "", float64(len(s.judged)-before))
	for _, table := range s.tables() {
		rows := 0
		dbtest.OK(s.t, s.db.QueryRow("SELECT COUNT(*) FROM "+table).Scan(&rows))
		s.note("rows", "of "+table, float64(rows))
	}
	s.note("bytes of files", "of the database", s.size())
}

func (s *soaking) tables() (all []string) {
	query := "SHOW TABLES LIKE 'proof\\_%'"
	if s.driver == "sqlite" {
		query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'proof%'"
	}
	dbtest.OK(s.t, s.each(query, func(rows *sql.Rows) error {
		all = append(all, "")
		return rows.Scan(&all[len(all)-1])
	}))
	return all
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

func (s *soaking) note(kind, of string, value float64) {
	name := strings.TrimSpace(kind + " " + of)
	s.points[name] = append(s.points[name], point{time.Since(s.began), value})
}

// measure looks at processes, connections and temporary files.
func (s *soaking) measure() {
	all := s.processes()
	s.note("processes", "", float64(len(all)))
	for n, t := range s.long {
		for _, p := range all {
			who := fmt.Sprintf("of %s %d", p.role, n+1)
			if p.pid != t.cmd.Process.Pid && (p.role != "guard" || p.parent != t.cmd.Process.Pid) {
				continue
			}
			fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
			_, value, _ := strings.Cut(string(status), "VmRSS:")
			value, _, _ = strings.Cut(value, " kB")
			if kb, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && len(fds) > 0 {
				s.note("descriptors", who, float64(len(fds)))
				s.note("bytes of memory", who, float64(kb<<10))
			}
		}
	}
	files := 0
	for _, pattern := range []string{s.temporary + "/*", s.dir + "/.*", s.dir + "/*", s.dir + "/.cache/*/*"} {
		some, _ := filepath.Glob(pattern)
		files += len(slices.DeleteFunc(some, func(f string) bool { return strings.HasSuffix(f, ".ndjson") })) // the clients'
	}
	s.note("temporary files", "", float64(files))
	if s.driver == "mysql" {
		connections := 0
		dbtest.OK(s.t, s.db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE()").Scan(&connections))
		s.note("connections", "", float64(connections))
	}
}

// judge compares the floors of the halves, without the first sixth: a leak raises them, a busy moment doesn't. Rows and files
// may grow with the load.
func (s *soaking) judge(load time.Duration) {
	from := load / 6
	half := from + (load-from)/2
	floor := func(points []point, from, to time.Duration) float64 {
		var values []float64
		for _, p := range points {
			if from <= p.at && p.at < to {
				values = append(values, p.value)
			}
		}
		slices.Sort(values)
		dbtest.Require(s.t, len(values) > 0, "nothing was measured from %s to %s: is the time too short?", from, to)
		return values[len(values)/10]
	}
	busier := max(1, floor(s.points[ended], half, load)/max(1, floor(s.points[ended], from, half)))
	for _, name := range slices.Sorted(maps.Keys(s.points)) {
		was, is, more := floor(s.points[name], from, half), floor(s.points[name], half, load), 1.25
		kind := ""
		for k := range slack {
			if strings.HasPrefix(name, k) {
				kind = k
			}
		}
		if kind == "rows" || kind == "bytes of files" {
			more *= busier
		}
		text := fmt.Sprintf("%s: %.0f, then %.0f", name, was, is)
		if s.notes = append(s.notes, text); name != ended && is > was*more+slack[kind] {
			s.found = append(s.found, "growth of "+text)
		}
		s.t.Log(text)
	}
}
