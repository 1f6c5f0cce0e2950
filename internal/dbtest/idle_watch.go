package dbtest

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hipq/hipq/internal/engine"
)

// Watch looks at an instance's tables while its workers run, and reports when it stands still.
type Watch struct {
	Idle
	db     *sql.DB
	mysql  bool
	prefix string
	// Ahead is how far the workers' clocks are ahead. With SQLite they are the database's.
	Ahead time.Duration
	// slots is worker.concurrency.
	slots int

	mu    sync.Mutex
	hands map[int]Hand
	// calm is when the last fault is over.
	calm   time.Time
	starts map[string][]time.Time
	read   int64
	found  []string
	// looks counts the looks that no fault excuses, and news what the test has told, which a look under way doesn't know.
	looks, news int
}

// NewWatch makes a watch by a config, with the test's own connection.
func NewWatch(t tester, db *sql.DB, config string) *Watch {
	t.Helper()
	type limits struct {
		Name        string
		Concurrency int
		Handler     map[string]any
	}
	var c struct {
		Name     string
		Database struct{ Driver string }
		Worker   struct{ Concurrency int }
		Queues   []struct {
			limits `yaml:",inline"`
			Limit  int `yaml:"throttle_limit"`
			Shards int
			Rate   string
			Groups struct {
				By     string
				Limits map[string]int
			} `yaml:"throttle_groups"`
			Types []limits `yaml:"job_types"`
		}
	}
	OK(t, yaml.Unmarshal(Must(os.ReadFile(config))(t), &c))
	w := &Watch{db: db, mysql: c.Database.Driver == "mysql", prefix: c.Name + "_", slots: cmp.Or(c.Worker.Concurrency, 4)}
	w.Most, w.hands, w.starts = 300*time.Millisecond, map[int]Hand{}, map[string][]time.Time{}
	for _, of := range c.Queues {
		q := Queue{Name: of.Name, Limit: of.Limit, Shards: of.Shards, Slots: of.Concurrency, By: of.Groups.By, Groups: of.Groups.Limits, Types: map[string]int{}}
		if n, per, is := strings.Cut(of.Rate, "/"); is {
			q.Rate = Must(strconv.Atoi(n))(t)
			q.Per = Must(time.ParseDuration(strings.Replace(per, "1d", "24h", 1)))(t)
		}
		for _, typ := range of.Types {
			if typ.Handler != nil {
				q.Types[typ.Name] = typ.Concurrency
			}
		}
		w.Queues = append(w.Queues, q)
	}
	return w
}

// Begin starts to look. end ends it, and returns what was found.
func (w *Watch) Begin() (end func() (bad []string, looks int)) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		w.keep(ctx)
		close(ended)
	}()
	return func() ([]string, int) {
		stop()
		<-ended
		return w.found, w.looks
	}
}

// Hire tells of a worker that has just begun with these arguments.
func (w *Watch) Hire(pid int, args []string) {
	h, runs := Hand{Slots: w.slots}, 55*time.Second
	for i := 0; i < len(args); i++ {
		next := args[min(i+1, len(args)-1)]
		switch args[i] {
		case "--max-jobs": // it ends when it likes
			return
		case "--concurrency":
			h.Slots, _ = strconv.Atoi(next)
		case "--run-for":
			runs, _ = time.ParseDuration(next)
		case "--type":
			h.Types = append(h.Types, next)
		case "--batch", "--config", "--shards":
		default:
			if slices.ContainsFunc(w.Queues, func(q Queue) bool { return q.Name == args[i] }) {
				h.Queues = append(h.Queues, args[i])
			}
			continue
		}
		i++
	}
	h.Until = time.Now().Add(runs + w.Ahead)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hands[pid] = h
}

// Dismiss tells of a worker that is about to be told to end, or to be killed.
func (w *Watch) Dismiss(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.hands, pid)
	w.news++
	w.Forget()
}

// Excuse excuses a standstill until then, as after a fault.
func (w *Watch) Excuse(until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news++
	w.Forget()
	if until.After(w.calm) {
		w.calm = until
	}
}

// keep looks until ctx ends. A look that fails excuses the instance too.
func (w *Watch) keep(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		w.mu.Lock()
		before := w.news
		w.mu.Unlock()
		m, err := w.look()
		w.mu.Lock()
		if err != nil || w.news != before || time.Now().Before(w.calm) {
			w.Forget()
		} else if w.looks++; len(w.found) < 20 {
			w.found = append(w.found, w.See(m)...)
		}
		w.mu.Unlock()
	}
}

// enough is how many due jobs of a queue are read: those behind can hardly be the next.
const enough = 200

// look reads the tables.
func (w *Watch) look() (m Moment, err error) {
	m.Paused, m.Waiting = map[string]bool{}, waiting()
	now, ago := "UTC_TIMESTAMP(6)", "UTC_TIMESTAMP(6) - INTERVAL 5 SECOND"
	if !w.mysql {
		format := "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '%+.3f seconds')"
		now, ago = fmt.Sprintf(format, w.Ahead.Seconds()), fmt.Sprintf(format, w.Ahead.Seconds()-5)
	}
	read := func(query string, scan func(*sql.Rows) error) {
		if err == nil {
			err = engine.ReadOn(context.Background(), w.db, engine.Query{SQL: query, Scan: engine.EachRow(scan)})
		}
	}
	for _, q := range w.Queues {
		columns := "SELECT id, job_type, status, COALESCE(throttle_factor, 1), job_data, CASE WHEN scheduled_run_time > create_time" +
			" THEN scheduled_run_time ELSE create_time END FROM " + w.prefix + q.Name
		scan := func(rows *sql.Rows) error {
			j, data, since := Job{Queue: q.Name}, "", ""
			err := rows.Scan(&j.ID, &j.Type, &j.Status, &j.Weight, &data, &since)
			j.Since, j.Group = when(since), q.groupOf(j.Type, data)
			m.Jobs = append(m.Jobs, j)
			return err
		}
		read(columns+" WHERE status IN ('locked', 'running', 'answered', 'awaiting', 'deciding')", scan)
		read(columns+" WHERE status IN ('available', 'throttled') AND losses = 0 ORDER BY run_rank, scheduled_run_time, id LIMIT "+fmt.Sprint(enough), scan)
		due := len(m.Jobs)
		read(columns+" WHERE status = 'scheduled' AND wake_time <= "+now+" AND losses = 0 ORDER BY wake_time LIMIT "+fmt.Sprint(enough), scan)
		for i := range m.Jobs[due:] {
			m.Jobs[due+i].Status = "available" // the next poll makes it so
		}
	}
	read("SELECT queue FROM "+w.prefix+"queues WHERE paused = 1", func(rows *sql.Rows) error {
		var q string
		err := rows.Scan(&q)
		m.Paused[q] = true
		return err
	})
	w.lookAtWorkers(&m, now, ago, read)
	first := w.read == 0
	read(fmt.Sprintf("SELECT id, queue, at FROM %sactivity WHERE id > %d AND kind = 'job' AND state = 'starting' ORDER BY id", w.prefix, w.read), func(rows *sql.Rows) error {
		var q, at string
		err := rows.Scan(&w.read, &q, &at)
		w.starts[q] = append(w.starts[q], when(at))
		return err
	})
	read("SELECT "+now, func(rows *sql.Rows) error {
		var at string
		err := rows.Scan(&at)
		m.At = when(at)
		return err
	})
	for _, all := range w.starts { // a test may have moved what was there before back
		for i := range all {
			if first {
				all[i] = m.At
			}
		}
	}
	m.Starts = map[string][]time.Time{}
	for _, q := range w.Queues {
		all := w.starts[q.Name]
		w.starts[q.Name] = all[max(0, len(all)-q.Rate-1):]
		m.Starts[q.Name] = slices.Clone(w.starts[q.Name])
	}
	return m, err
}

// lookAtWorkers reads who works, and which workers have ended since.
func (w *Watch) lookAtWorkers(m *Moment, now, ago string, read func(string, func(*sql.Rows) error)) {
	read("SELECT id, pid, start_time, state, accepting, end_time IS NULL AND lock_until > "+now+" FROM "+w.prefix+"workers WHERE state = 'working' OR end_time > "+ago,
		func(rows *sql.Rows) error {
			var id, began, state string
			var pid int
			var accepting, alive bool
			err := rows.Scan(&id, &pid, &began, &state, &accepting, &alive)
			w.mu.Lock()
			defer w.mu.Unlock()
			h, known := w.hands[pid]
			h.ID, h.Began = id, when(began)
			if alive {
				m.Workers++
			}
			switch {
			case known && alive && accepting:
				m.Hands = append(m.Hands, h)
			case alive && accepting:
				m.Strangers++
			case known && state == "finished":
				m.Ended = append(m.Ended, h)
				delete(w.hands, pid)
			}
			return err
		})
}

// waiting is how many processes wait for each processor of a Linux machine.
func waiting() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); len(fields) > 3 {
		running, _, _ := strings.Cut(fields[3], "/")
		n, _ := strconv.Atoi(running)
		return max(0, float64(n)/float64(runtime.NumCPU())-1)
	}
	return 0
}

// when reads a time of either engine.
func when(text string) time.Time {
	t, _ := time.Parse("2006-01-02 15:04:05.999999", text)
	return t
}

// groupOf is the group of a job by its data.
func (q Queue) groupOf(jobType, data string) string {
	if key, in := strings.CutPrefix(q.By, "data."); in {
		fields := map[string]any{}
		_ = json.Unmarshal([]byte(data), &fields)
		text, _ := fields[key].(string)
		return text
	} else if q.By == "job_type" {
		return jobType
	}
	return ""
}
