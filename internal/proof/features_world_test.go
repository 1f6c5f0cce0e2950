package proof

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite"
	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
)

// instance is an instance of hipq that all checks of a round use in turn, each with empty tables.
type instance struct {
	*round
	source, config, url string
	db                  *sql.DB
	began               time.Time
	jobs, steps         int
	spent               map[string]time.Duration // by command
	initialized         []byte                   // SQLite's file after hipq init
}

// play is one check: a sequence of operations on the instance, and the model of it.
type play struct {
	*instance
	*rapid.T
	queues    []*mQueue
	byID      map[string]*mJob
	unbound   map[string]*mJob
	n         int
	last      int64 // the last entry of the activity
	tally     map[string][5]int
	hours     int
	anchor    time.Time // jobs of the past are due from here on
	shut      string
	start     time.Time
	schedules map[string]*mSchedule
	ran       bool // a tick ran
	byNow     bool // a schedule is run by hand
	monitored int64
	old       int // entries of the activity that purge deletes
	secrets   int
	shards    map[string]int    // by queue and key
	tokens    map[string]string // by job and attempt, and the attempt by job and token
	compared  map[*mQueue]time.Time
}

func newInstance(r *round) *instance {
	server := httptest.NewServer(http.HandlerFunc(endpoint))
	r.t.Cleanup(server.Close)
	i := &instance{round: r, source: r.source, config: filepath.Join(r.dir, "features.yaml"), url: server.URL, began: time.Now(), spent: map[string]time.Duration{}}
	if r.driver == "sqlite" {
		i.source = filepath.Join(r.dir, "features.db")
	}
	return i
}

// endpoint is the handler of the jobs of type http.
func endpoint(w http.ResponseWriter, r *http.Request) {
	var j struct {
		Attempt int
		Data    struct{ Do string } `json:"job_data"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &j) != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	answers := map[byte]struct {
		status int
		body   string
	}{
		'd': {200, ""}, 'D': {200, letters['D'][3]}, 's': {202, ""}, 'f': {404, "no such customer"}, 'q': {400, "no"}, 'x': {500, "broken"},
		'p': {200, `{"outcome":"release","retry_after":"3d"}`}, 'P': {200, `{"outcome":"release","retry_after":"0s","count":true}`},
		'r': {503, `{"outcome":"retry","error":"busy"}`}, 'g': {200, `{"outcome":"nonsense"}`}, 'l': {429, "later"},
	}
	a := answers[letter(j.Data.Do, j.Attempt)]
	if a.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "80000")
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// world returns the queues of the config. They differ in what they limit, and have the same job types.
func world() []*mQueue {
	queues := []*mQueue{
		{name: "plain"},
		{name: "tight", order: "highest", limit: 4},
		{name: "timely", order: "schedule", forgetDone: true, all: true},
		{name: "parts", groups: map[string]int{"a": 2, "*": 3}},
		{name: "split", shards: 4},
		{name: "paced", rate: 150, forgetFailed: true, lane: 5},
	}
	for _, q := range queues {
		q.live = map[string]*mJob{}
		for _, t := range []mType{
			{name: "stream", kind: "stream", attempts: 3},
			{name: "later", kind: "stream", attempts: 2, later: true},
			{name: "exec", kind: "exec", attempts: 3, later: true},
			{name: "http", kind: "http", attempts: 2, later: true},
			{name: "asked", kind: "stream", attempts: 2, later: true, asked: true},
			{name: "async", kind: "stream", attempts: 2, later: true, async: true},
			{name: "heavy", kind: "stream", attempts: 1, priority: 50, factor: 3},
			{name: "free", kind: "stream", attempts: 2, later: true, factor: -1},
			{name: "shut", kind: "stream", attempts: 1, shut: true},
			{name: "brief", kind: "exec", attempts: 2, later: true, timeout: 3},
			{name: "idle", kind: "none", attempts: 3},
			{name: "wild", kind: "none", attempts: 3},
		} {
			if t.factor == 0 {
				t.factor = 1
			}
			if q.all && t.kind == "none" {
				t.kind = "stream"
			}
			if q.all && t.name == "wild" {
				t.attempts, t.later = 2, true
			}
			t.factor, t.priority = max(t.factor, 0), t.priority+100*btoi(t.priority == 0)
			t.timeout += 86400 * btoi(t.timeout == 0)
			q.types = append(q.types, &t)
		}
	}
	return queues
}

// yaml is the config of the model's queues.
func (p *play) yaml() string {
	var c strings.Builder
	fmt.Fprintf(&c, "name: shop\ndatabase: %s\nworker: {concurrency: 50}\nretry: {jitter: 0, backoff: fixed}\n",
		dbtest.Section(p.driver, p.source))
	fmt.Fprintf(&c, "schedules:\n")
	for name := range p.schedules {
		fmt.Fprintf(&c, "  - {name: %s, when: '@every 10m', queue: plain, type: later, missed: %s, data: '%s'}\n", name, name, slotData)
	}
	c.WriteString("queues:\n")
	for _, q := range p.queues {
		fmt.Fprintf(&c, "  - name: %s\n    throttle_limit: %d\n    shards: %d\n", q.name, q.limit, max(q.shards, 1))
		switch {
		case q.order == "highest":
			c.WriteString("    priority_order: highest\n")
		case q.order != "":
			c.WriteString("    order: schedule\n")
		}
		for key, set := range map[string]bool{
			"keep_finished: 0": q.forgetDone, "keep_failed: 0": q.forgetFailed,
			fmt.Sprintf("rate: %d/1d", q.rate): q.rate > 0, fmt.Sprintf("concurrency: %d", q.lane): q.lane > 0,
			`throttle_groups: {by: data.g, limits: {a: 2, "*": 3}}`: q.groups != nil,
		} {
			if set {
				c.WriteString("    " + key + "\n")
			}
		}
		c.WriteString("    job_types:\n")
		for _, t := range q.types {
			if t.name == "wild" && !q.all {
				continue // no config knows it
			}
			fmt.Fprintf(&c, "      - {name: %s, timeout: %ds, priority: %d, throttle_factor: %d, async: %v", when(t.name == "wild", `"*"`, t.name), t.timeout, t.priority, t.factor, t.async)
			fmt.Fprintf(&c, ", retry: {attempts: %d, delay: %s, max_delay: 1d}", t.attempts, map[bool]string{true: "1d", false: "0s"}[t.later])
			if t.shut {
				fmt.Fprintf(&c, ", time_windows: [%q]", p.shut)
			}
			if t.asked {
				fmt.Fprintf(&c, ", retry_handler: {exec: [%q, decide]}", p.bin.player)
			}
			switch t.kind {
			case "exec":
				fmt.Fprintf(&c, ", handler: {exec: [%q, exec]}", p.bin.player)
			case "stream":
				fmt.Fprintf(&c, ", handler: {stream: [%q, stream], in_flight: 50}", p.bin.player)
			case "http":
				fmt.Fprintf(&c, ", handler: {http: {url: %q, networks: [127.0.0.0/8]}}", p.url)
			}
			c.WriteString("}\n")
		}
	}
	return c.String()
}

const slotData = `{"n":0,"do":"d","say":"z","g":""}`

// begin gives a check empty tables.
func (f *instance) begin(t *rapid.T) *play {
	now := time.Now().UTC()
	p := &play{
		instance: f, T: t, queues: world(), byID: map[string]*mJob{}, unbound: map[string]*mJob{}, tally: map[string][5]int{}, start: now,
		schedules: map[string]*mSchedule{}, shards: map[string]int{}, tokens: map[string]string{}, compared: map[*mQueue]time.Time{},
		anchor: now.Add(-48 * time.Hour).Truncate(time.Minute), shut: now.Add(8*time.Hour).Format("15:04") + "-" + now.Add(10*time.Hour).Format("15:04"),
	}
	for _, missed := range []string{"all", "latest", "skip"} {
		p.schedules[missed] = &mSchedule{missed: missed, got: map[string]bool{}}
	}
	p.configure()
	if f.db != nil {
		_ = f.db.Close()
	}
	source := f.source
	if f.driver == "sqlite" {
		for _, ending := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(f.source + ending)
		}
		source += "?_pragma=busy_timeout(10000)"
		if f.initialized != nil {
			dbtest.OK(t, os.WriteFile(f.source, f.initialized, 0o600))
		}
	}
	f.db = dbtest.Must(sql.Open(f.driver, source))(t)
	if f.driver == "mysql" {
		p.empty()
	}
	if f.initialized == nil {
		_, stderr, code := p.exec("", "init", "--yes")
		dbtest.Require(t, code == 0, "hipq init: %s", stderr)
		if f.driver == "sqlite" {
			f.initialized = dbtest.Must(os.ReadFile(f.source))(t)
		}
	}
	for name, s := range p.schedules {
		s.until = dbtest.Must(time.Parse(stamp, p.cell("SELECT seen_until FROM shop_schedules WHERE name = ?", name)))(t)
	}
	return p
}

const stamp = "2006-01-02 15:04:05.999999"

func (p *play) configure() { dbtest.OK(p.T, os.WriteFile(p.config, []byte(p.yaml()), 0o600)) }

// empty deletes the rows of the check before.
func (p *play) empty() {
	for _, table := range []string{
		"activity", "metrics", "hours", "workers", "queues", "shards", "job_types", "notices", "schedules",
		"plain", "tight", "timely", "parts", "split", "paced",
	} {
		_, _ = p.db.Exec("DELETE FROM shop_" + table) // before the first hipq init there are none
	}
}

func (p *play) cell(query string, args ...any) (value string) {
	p.Helper()
	dbtest.OK(p.T, p.db.QueryRow(query, args...).Scan(&value))
	return value
}

// exec runs a command.
func (p *play) exec(stdin string, args ...string) (stdout, stderr string, code int) {
	return p.launch(stdin, args...)()
}

// launch starts a command.
func (p *play) launch(stdin string, args ...string) (wait func() (stdout, stderr string, code int)) {
	var out, complaints bytes.Buffer
	c := exec.Command(p.bin.hipq, append(args, "--config", p.config)...)
	c.Env = append(os.Environ(), "HOME=", "XDG_CACHE_HOME=", "HIPQ_MAIL=off")
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &complaints
	begun := time.Now()
	dbtest.OK(p.T, c.Start())
	rest := func() ([]string, int) { return nil, 0 }
	if args[0] == "work" {
		watch := dbtest.NewWatch(p.T, p.db, p.config)
		watch.Hire(c.Process.Pid, args)
		rest = watch.Begin()
	}
	return func() (string, string, int) {
		_ = c.Wait()
		p.spent[args[0]] += time.Since(begun)
		bad, _ := rest()
		dbtest.Require(p.T, len(bad) == 0, "hipq %q: %q", args, bad)
		return out.String(), complaints.String(), c.ProcessState.ExitCode()
	}
}

// hipq runs a command with --json and returns the objects that it prints. It fails with another exit code.
func (p *play) hipq(code int, stdin string, args ...string) (list []map[string]any) {
	p.Helper()
	shown := stdin
	if lines := strings.SplitAfter(stdin, "\n"); len(lines) > 8 {
		shown = strings.Join(lines[:8], "") + fmt.Sprintf("… %d lines", len(lines)-1)
	}
	if shown != "" {
		shown = " <<'END'\n" + shown + "\nEND"
	}
	p.Logf("hipq %q%s", args, shown)
	out, stderr, got := p.exec(stdin, append(args, "--json")...)
	dbtest.Require(p.T, got == code, "hipq %q: exit code %d, want %d\n%s%s", args, got, code, out, stderr)
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var o map[string]any
		dbtest.OK(p.T, d.Decode(&o))
		list = append(list, o)
	}
	return list
}

// row is a row of a jobs table.
type row struct {
	id                                                    int64
	typ, key, data, status, state, at, err, result, token string
	attempt, priority, factor, timeout, shard             int
	retryOf, retriedAs                                    int64
}

// sync reads the tables, gives new jobs of the model their ids, shows the activity to the tick, and compares the jobs.
func (p *play) sync(k *mTick, queues ...*mQueue) {
	p.Helper()
	p.steps++
	read := map[*mQueue][]row{}
	for _, q := range queues {
		read[q] = p.rows(q)
		for _, r := range read[q] {
			p.bind(q, r)
		}
	}
	p.activity(k)
	for _, q := range queues {
		p.compare(q, read[q], k != nil && k.bySQL)
	}
}

// each calls scan for each row of a query.
func (p *play) each(query string, scan func(*sql.Rows) error, args ...any) {
	p.Helper()
	dbtest.OK(p.T, dbtest.Read(context.Background(), p.db, query, args, scan))
}

func (p *play) rows(q *mQueue) (list []row) {
	p.each("SELECT id, job_type, job_key, job_data, status, state, scheduled_run_time, error, result, attempt_token, attempt,"+
		" COALESCE(priority, 0), COALESCE(throttle_factor, 0), COALESCE(timeout, 0), shard, COALESCE(retry_of, 0), COALESCE(retried_as, 0)"+
		" FROM shop_"+q.name+" ORDER BY id", func(rows *sql.Rows) error {
		var r row
		err := rows.Scan(&r.id, &r.typ, &r.key, &r.data, &r.status, &r.state, &r.at, &r.err, &r.result, &r.token, &r.attempt,
			&r.priority, &r.factor, &r.timeout, &r.shard, &r.retryOf, &r.retriedAs)
		list = append(list, r)
		return err
	})
	return list
}

func (q *mQueue) id(id int64) string { return fmt.Sprint(q.name, " ", id) }

// claim is what a new job is known by until it has its id.
func (q *mQueue) claim(typ, key string, retryOf int64) string {
	return fmt.Sprint(q.name, " ", typ, " ", key, " ", retryOf)
}

func (p *play) bind(q *mQueue, r row) {
	j := p.byID[q.id(r.id)]
	if j == nil {
		claim := q.claim(r.typ, r.key, r.retryOf)
		if j = p.unbound[claim]; j == nil && strings.Contains(r.key, "@") {
			j = p.slot(q, r)
		}
		dbtest.Require(p.T, j != nil, "%s has a job that nobody enqueued: %+v; missing are %v", q.name, r, slices.Collect(maps.Keys(p.unbound)))
		delete(p.unbound, claim)
		if at := j.at; at != "" && !j.shut && !strings.HasPrefix(r.at, at) {
			p.Fatalf("%s: job %d is due at %s, not at %s", q.name, r.id, r.at, at)
		}
		j.id, j.at, p.byID[q.id(r.id)] = r.id, r.at, j
		p.jobs++
	}
	unplaced := r.status == "submitted" || r.state == "final" && r.attempt == 0 // cancelled before a worker took it in
	if place, known := p.shards[q.name+" "+r.key]; q.shards > 0 && !unplaced {
		in := r.shard - 1000*q.shards // a place is the number of shards and the shard
		dbtest.Require(p.T, in >= 0 && in < q.shards && (!known || place == r.shard), "%s: job %d with key %s is in shard %d, others in %d", q.name, r.id, r.key, r.shard, place)
		p.shards[q.name+" "+r.key] = r.shard
	}
	j.shard, j.ready = r.shard, r.status == "available"
}

// expect notes jobs that the next look at the tables must find.
func (p *play) expect(jobs ...*mJob) {
	for _, j := range jobs {
		of := int64(0)
		if j.retryOf != nil {
			of = j.retryOf.id
		}
		p.unbound[j.q.claim(j.t.name, j.key, of)] = j
	}
}

func (p *play) activity(k *mTick) {
	p.Helper()
	if k == nil {
		k = newTick(0, func(*mJob) bool { return false })
	}
	p.each("SELECT id, at, state, queue, job_id, attempt FROM shop_activity WHERE kind = 'job' AND id > ? ORDER BY id", func(rows *sql.Rows) error {
		var at, state, queue string
		var id, attempt int64
		if err := rows.Scan(&p.last, &at, &state, &queue, &id, &attempt); err != nil {
			return err
		}
		j := p.byID[queue+" "+fmt.Sprint(id)]
		dbtest.Require(p.T, j != nil, "activity %d is about an unknown job %d of %s", p.last, id, queue)
		if err := k.see(j, fmt.Sprint(state, " ", attempt), at); err != nil {
			return fmt.Errorf("%s: job %d of type %s, handler %q, retry handler %q: %w", queue, id, j.t.name, j.do, j.say, err)
		}
		if i := slices.Index([]string{"added", "starting", "finished", "error", "failed"}, state); i >= 0 {
			n := p.tally[queue+" "+j.t.name]
			n[i]++
			p.tally[queue+" "+j.t.name] = n
		}
		return nil
	}, p.last)
}

var statuses = map[string]string{"available": "due", "throttled": "due", "deciding": "undecided"}

// compare compares the rows of a queue with the model. While a worker in SQL is at work, it has locked some due jobs.
func (p *play) compare(q *mQueue, rows []row, grabbed bool) {
	p.Helper()
	dbtest.Require(p.T, len(p.unbound) == 0, "not in the tables: %v", p.unbound)
	began, now := p.compared[q], time.Now().UTC().Add(time.Second)
	if p.compared[q] = time.Now().UTC(); began.IsZero() {
		began = p.start
	}
	i := 0
	for _, j := range q.jobs {
		if len(j.log) > 0 {
			p.Fatalf("%s: the activity of job %d doesn't say %q", q.name, j.id, j.log)
		}
		if j.gone {
			continue
		}
		dbtest.Require(p.T, i < len(rows) && rows[i].id == j.id, "%s: job %d is missing", q.name, j.id)
		r := rows[i]
		i++
		dbtest.Require(p.T, p.onTime(j, r.at, began.Add(-time.Second), now), "%s: job %d, %s after attempt %d, is due at %s; it was at %s (since then moved: %v, shut: %v)",
			q.name, j.id, j.status, j.attempt, r.at, j.at, j.moved, j.shut)
		j.at, j.moved = r.at, false
		p.fresh(j, r.token)
		if s, known := statuses[r.status]; known {
			r.status = s
		} else if grabbed && r.status == "locked" {
			r.status = "due"
		} else if r.status == "scheduled" {
			r.status = map[bool]string{true: "later", false: "due"}[r.at > now.Format(stamp)]
		}
		if j.status == "submitted" {
			r.priority, r.factor, r.timeout = j.priority, j.factor, j.timeout
		}
		data := j.data
		if data == "other" && strings.Contains(r.data, `"changed":true`) {
			data = r.data
		}
		want := row{
			j.id, j.t.name, j.key, data, j.status, j.state(), j.at, r.err, j.result, r.token, j.attempt, j.priority, j.factor, j.timeout,
			j.shard, idOf(j.retryOf), idOf(j.retriedAs),
		}
		dbtest.Require(p.T, r == want, "%s differs:\n got %+v\nwant %+v", q.name, r, want)
		if (r.err == "NONE") != (j.error == "NONE") || j.error != "NONE" && !strings.Contains(r.err, j.error) {
			p.Fatalf("%s: the error of job %d is %q, not %q", q.name, j.id, r.err, j.error)
		}
	}
	if i < len(rows) {
		p.Fatalf("%s has %d jobs that should be gone, such as %+v", q.name, len(rows)-i, rows[i])
	}
}

// delays are those of policies, handlers and operators, if not 0.
var delays = []time.Duration{80_000 * time.Second, 24 * time.Hour, 48 * time.Hour, 72 * time.Hour}

// onTime says whether a job is due when it should be: when it was before, or the application said, or since the last look was
// decided.
func (p *play) onTime(j *mJob, at string, from, to time.Time) bool {
	kept := j.at != "" && strings.HasPrefix(at, j.at)
	if !j.moved || kept && j.attempt <= btoi(!j.waits()) { // no retry moved it
		return kept
	}
	t := dbtest.Must(time.Parse(stamp, at))(p.T)
	if j.shut {
		return at[11:16] == p.shut[:5] && t.After(from) && t.Before(to.Add(96*time.Hour))
	}
	return slices.ContainsFunc(append(delays, 0), func(d time.Duration) bool {
		return (j.status == "submitted" || (d > 0) == (j.status == "later")) && !t.Add(-d).Before(from) && !t.Add(-d).After(to)
	})
}

// fresh checks that each attempt of a job has one token, and no two have the same. Jobs that were locked together share one.
func (p *play) fresh(j *mJob, token string) {
	attempt, name := fmt.Sprint(j.attempt), j.q.id(j.id)+" "
	of, was := cmp.Or(p.tokens[name+token], attempt), cmp.Or(p.tokens[name+attempt], token)
	dbtest.Require(p.T, of == attempt && was == token && (token == "NONE") == (j.attempt == 0),
		"job %s: attempt %s has token %s, which was that of attempt %s; its own was %s", name, attempt, token, of, was)
	p.tokens[name+token], p.tokens[name+attempt] = attempt, token
}

func idOf(j *mJob) int64 {
	if j == nil {
		return 0
	}
	return j.id
}
