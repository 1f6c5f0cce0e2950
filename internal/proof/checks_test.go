package proof

import (
	"bufio"
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// id names a job.
type id struct {
	queue string
	id    int64
}

// seen is all that can be seen of a job afterwards.
type seen struct {
	id
	jobType, key, state, status, error, token string
	attempt, weight                           int
	asks                                      []ask
	log                                       []event // its activity, in the order of its writes
	notes                                     []note  // what its handlers wrote, in the order of their writes
	r                                         *round
}

// event is a row of the activity.
type event struct {
	at      time.Time
	state   string
	attempt int
	error   string
	// place is that in the activity.
	place int
}

// note is a line of the handlers' ledger.
type note struct {
	event string
	id
	attempt int
	token   string
	// parent is the worker, as long as it lives.
	pid, parent int
	nanos       int64
}

func (j *seen) name() string { return j.queue + "/" + j.jobType + "/" + j.key }

func (j *seen) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %s/%s: %s (%s) attempt %d, error %.100q", j.queue, j.id.id, j.jobType, j.key, j.status, j.state, j.attempt, j.error)
	for _, a := range j.asks {
		fmt.Fprintf(&b, "\n\tasked: %v, told %v", a.Steps, a.told)
	}
	for _, e := range j.log {
		fmt.Fprintf(&b, "\n\t%s %s/%d %.100s", e.at.Format("15:04:05.000000"), e.state, e.attempt, e.error)
	}
	for i, n := range j.notes {
		if n.event != "beat" || i == len(j.notes)-1 || j.notes[i+1].event != "beat" {
			fmt.Fprintf(&b, "\n\t%d ms: %s/%d by %d of %d", n.nanos/1e6, n.event, n.attempt, n.pid, n.parent)
		}
	}
	return b.String()
}

// judge fails the round's test for each violation, and returns them.
func (r *round) judge() []string {
	bad := r.violations()
	for _, b := range bad[:min(len(bad), 20)] {
		r.t.Error(b)
	}
	return bad
}

// violations checks the round.
func (r *round) violations() (bad []string) {
	jobs := dbtest.Must(r.see())(r.t)
	bad = append(r.badTicks(), slices.Sorted(maps.Keys(r.over))...)
	bad = append(append(append(bad, r.missing(jobs)...), r.tooMany(jobs)...), r.crowded(jobs)...)
	for _, j := range jobs {
		for _, what := range j.judge() {
			bad = append(bad, what+": "+j.String())
		}
	}
	return append(append(append(bad, r.twice(jobs)...), r.left()...), append(r.neverSaid(), r.found...)...)
}

// see reads everything.
func (r *round) see() (map[id]*seen, error) {
	jobs, asks := map[id]*seen{}, map[string][]ask{}
	for _, a := range r.allAsks() {
		name := a.queue + "/" + a.jobType + "/" + a.key
		asks[name] = append(asks[name], a)
	}
	for _, q := range queues {
		err := r.each("SELECT id, job_type, job_key, state, status, error, attempt, attempt_token, COALESCE(throttle_factor, 1) FROM proof_"+q, func(rows *sql.Rows) error {
			j := &seen{id: id{queue: q}, r: r}
			err := rows.Scan(&j.id.id, &j.jobType, &j.key, &j.state, &j.status, &j.error, &j.attempt, &j.token, &j.weight)
			j.asks = asks[j.name()]
			jobs[j.id] = j
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	stray := map[id]*seen{}
	of := func(i id) *seen {
		if jobs[i] == nil && stray[i] == nil {
			stray[i] = &seen{id: i, r: r}
		}
		return cmp.Or(jobs[i], stray[i])
	}
	order := "id"
	if r.turn.engine == "galera" { // each node counts its own ids; an answer may have begun before the timeout for which it then waits
		order = "attempt, job_type = 'sent' AND state IN ('finished', 'failed'), at"
	}
	place, steps := 0, ""
	if r.turn.kind.name == "packets" { // it has an operator, whose acts are no steps of a job
		steps = " AND state NOT IN ('dismissed', 'rescheduled', 'retried', 'stopping')"
	}
	err := r.each("SELECT queue, job_id, at, state, attempt, error FROM proof_activity WHERE kind = 'job'"+steps+" ORDER BY "+order, func(rows *sql.Rows) error {
		var i id
		var e event
		var at string
		err := rows.Scan(&i.queue, &i.id, &at, &e.state, &e.attempt, &e.error)
		if err == nil {
			e.at, err = time.Parse("2006-01-02 15:04:05.000000", at)
		}
		place++
		e.place = place
		of(i).log = append(of(i).log, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = r.each("SELECT id, state FROM proof_workers", func(rows *sql.Rows) error {
		var worker, state string
		err := rows.Scan(&worker, &state)
		r.workers[worker] = state
		return err
	})
	if err != nil {
		return nil, err
	}
	notes, err := readNotes(r.ledger)
	for _, n := range notes {
		if j := of(n.id); !j.slept(n) {
			j.notes = append(j.notes, n)
		}
	}
	maps.Copy(jobs, stray)
	for i := range r.judged {
		delete(jobs, i)
	}
	return jobs, err
}

// guardWakes is how long a guard may take to kill the handlers, once their host goes on and has no lock any more.
const guardWakes = time.Second

// slept says whether a handler wrote this although its attempt was lost, because its guard had been stopped like itself.
func (j *seen) slept(n note) bool {
	lost := slices.ContainsFunc(j.log, func(e event) bool { return e.attempt == n.attempt && strings.HasPrefix(e.error, "worker lost") })
	return lost && slices.ContainsFunc(j.r.resumed, func(at int64) bool { return at <= n.nanos && n.nanos < at+int64(guardWakes) })
}

// readNotes skips incomplete lines: their handlers were killed during the write, before the event.
func readNotes(file string) (notes []note, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasSuffix(lines.Text(), " .") {
			n, err := readNote(lines.Text())
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", file, lines.Text(), err)
			}
			notes = append(notes, n)
		}
	}
	return notes, nil
}

func readNote(line string) (n note, err error) {
	_, err = fmt.Sscan(line, &n.event, &n.queue, &n.id.id, &n.attempt, &n.token, &n.pid, &n.parent, &n.nanos)
	return n, err
}

// missing compares what clients asked for with what is there: a total queue.
func (r *round) missing(jobs map[id]*seen) (bad []string) {
	there := map[string]int{}
	for _, name := range r.judged {
		there[name]++
	}
	for _, j := range jobs {
		there[j.name()]++
		if len(j.asks) == 0 && slices.Contains(queues, j.queue) {
			bad = append(bad, "nobody asked for "+j.String())
		}
	}
	times, sure := map[string]int{}, map[string]bool{}
	for _, a := range r.asks {
		name := a.queue + "/" + a.jobType + "/" + a.key
		times[name]++
		sure[name] = sure[name] || a.told == accepted
	}
	for name, n := range times {
		if there[name] > n || there[name] == 0 && sure[name] {
			bad = append(bad, fmt.Sprintf("%s was asked for %d times (accepted: %v) and is there %d times", name, n, sure[name], there[name]))
		}
	}
	return bad
}

// twice finds jobs with one key that were there at once.
func (r *round) twice(jobs map[id]*seen) (bad []string) {
	same := map[string][]*seen{}
	for _, j := range jobs {
		if len(j.log) > 0 && len(j.asks) > 0 {
			same[j.name()] = append(same[j.name()], j)
		}
	}
	for _, all := range same {
		slices.SortFunc(all, func(a, b *seen) int {
			return cmp.Or(a.log[0].at.Compare(b.log[0].at)*btoi(r.ways != nil), a.log[0].place-b.log[0].place)
		})
		for i, j := range all[1:] {
			before := all[i].log[len(all[i].log)-1]
			if r.ways == nil && before.place > j.log[0].place || r.ways != nil && before.at.After(j.log[0].at) {
				bad = append(bad, "added although its key was taken: "+j.String()+"\n"+all[i].String())
			}
		}
	}
	return bad
}

// judge checks one job: its log is a way that a job can go, its handlers' notes agree with it, and its lock fenced them.
func (j *seen) judge() (bad []string) {
	if len(j.asks) == 0 {
		return nil // missing says so
	}
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	if j.state != "final" {
		say("it is not final")
	}
	attempt, over := 0, true // over: the attempt has its outcome
	counted := 0             // the attempts that the retry policy counts
	var started time.Time
	last := event{error: "NONE"}
	for i, e := range j.log {
		switch {
		case e.state == "added":
			if i > 0 {
				say("added again")
			}
		case last.state == "finished" || last.state == "failed":
			say("something happened after its end")
		case e.state == "starting":
			if !over || e.attempt != attempt+1 || j.r.ways != nil && i > 1 && last.at.Sub(e.at) > time.Second {
				say("attempt %d started after attempt %d (over: %v)", e.attempt, attempt, over)
			}
			attempt, over, started = e.attempt, false, e.at
		case j.jobType == "sent" && over && e.attempt == attempt && e.state != "error":
			// the answer came after the timeout
		case j.asks[0].excuse != "" && strings.HasPrefix(e.error, j.asks[0].excuse) && (!over && e.attempt == attempt || j.asks[0].excuse == "cancelled"):
			over = true
		default:
			if over || e.attempt != attempt {
				say("an outcome of attempt %d in attempt %d (over: %v)", e.attempt, attempt, over)
			}
			over = true
			if !strings.HasPrefix(e.error, "interrupted") {
				counted++
			}
			if why := cmp.Or(j.reason(e, e.at.Sub(started)), j.decision(e, counted)); why != "" {
				say("attempt %d ended as %s with %.100q, but %s", e.attempt, e.state, e.error, why)
			}
		}
		last = e
	}
	if len(j.log) == 0 || j.log[0].state != "added" {
		say("nothing says that it was added")
	}
	if j.state == "final" && (attempt != j.attempt || !strings.HasPrefix(last.error, j.error) || (last.state == "finished") != (j.status == "finished") || last.state == "error") {
		say("the log ends as %s/%d %.100q", last.state, last.attempt, last.error)
	}
	return append(bad, j.fenced()...)
}

// outside are errors that no handler made.
var outside = []string{"worker lost", "killed by signal ", "interrupted", "timeout after", "not started: ", "stream: ", "the program "}

// timeouts are those of the job types that don't have the instance's.
var timeouts = map[string]time.Duration{"brief": time.Second, "sent": 3 * time.Second}

// reason says why an outcome can't be, or "". took is how long the attempt took by the database's clock.
func (j *seen) reason(e event, took time.Duration) string {
	step := j.asks[0].step(e.attempt)
	reached := slices.ContainsFunc(j.notes, func(n note) bool { return n.attempt == e.attempt && n.event == step.Do })
	if e.state == "finished" {
		if step.Do != "done" && step.Do != "late" && step.Do != "stop" {
			return "its handler said " + step.Do
		}
		switch {
		case j.jobType == "sent" && !j.r.answers[j.queue+" "+j.key]:
			return "nobody has completed it"
		case !reached && j.jobType != "sent":
			return "its handler never got there"
		}
		return ""
	}
	if lost, is := strings.CutPrefix(e.error, "worker lost: "); is && j.r.workers[strings.Fields(lost)[0]] != "error" {
		return "its worker is " + j.r.workers[strings.Fields(lost)[0]]
	}
	if after := cmp.Or(timeouts[j.jobType], when(j.r.turn.kind.byDefault, 24*time.Hour, 30*time.Second)); strings.HasPrefix(e.error, "timeout after") && took < after && len(j.r.jumps) == 0 {
		return fmt.Sprintf("it took only %s", took)
	}
	if j.r.blamed(e.error) || slices.ContainsFunc(outside, func(text string) bool { return strings.HasPrefix(e.error, text) }) {
		return ""
	}
	if step.Do == "done" || step.Do == "hang" || !reached && step.Do != "crash" {
		return "its handler had no reason"
	}
	return ""
}

// decision says why it can't be that the job is retried after an outcome, or that it isn't; "" if it can.
func (j *seen) decision(e event, counted int) string {
	most, fatal := attempts, strings.HasPrefix(e.error, "exit status 65") || strings.HasPrefix(e.error, "failed for good")
	if j.jobType == "fragile" {
		most = fragileAttempts
	}
	switch {
	case e.state == "failed" && !fatal && counted < most:
		return fmt.Sprintf("it had only %d attempts", counted)
	case e.state == "error" && j.jobType != "asked" && (fatal || counted >= most && !strings.HasPrefix(e.error, "interrupted")):
		return fmt.Sprintf("nothing allows a retry after %d attempts", counted)
	}
	return ""
}

// fenced checks that each attempt ran once, in one process, with a token of its own, and before the next.
func (j *seen) fenced() (bad []string) {
	pids, starts, began := map[int]int{}, map[int]int{}, map[int]int64{}
	tokens, whose := map[int]string{}, map[string]int{}
	if j.attempt > 0 {
		tokens[j.attempt], whose[j.token] = j.token, j.attempt
	}
	newest := 0
	for _, n := range j.notes {
		if n.event == "asked" {
			continue
		}
		if n.event == "start" {
			starts[n.attempt]++
			began[n.attempt] = n.nanos
		}
		if token, other := tokens[n.attempt], whose[n.token]; token != "" && token != n.token || other != 0 && other != n.attempt {
			bad = append(bad, fmt.Sprintf("attempt %d has the token %s, which is that of attempt %d", n.attempt, n.token, other))
		}
		tokens[n.attempt], whose[n.token] = n.token, n.attempt
		if pid := pids[n.attempt]; pid != 0 && pid != n.pid || starts[n.attempt] > 1 {
			bad = append(bad, fmt.Sprintf("attempt %d ran twice", n.attempt))
		}
		if n.attempt < newest && !j.r.jumped(began[n.attempt], n.nanos) {
			bad = append(bad, fmt.Sprintf("attempt %d was alive in attempt %d", n.attempt, newest))
		}
		if n.attempt > j.attempt {
			bad = append(bad, fmt.Sprintf("attempt %d ran after the last", n.attempt))
		}
		pids[n.attempt], newest = n.pid, max(newest, n.attempt)
	}
	slices.Sort(bad)
	return slices.Compact(bad)
}

// jumped says whether locks ended early, by a jump forward since an attempt began, so short ago that its worker may not know it:
// it learns it when it renews its lock.
func (r *round) jumped(began, nanos int64) bool {
	for _, j := range r.jumps {
		if began <= j && j <= nanos && nanos < j+int64(lockFor+3*time.Second) {
			return true
		}
	}
	return false
}

// tooMany checks the first queue's limit on processes and its rate of starts.
func (r *round) tooMany(jobs map[id]*seen) (bad []string) {
	type change struct {
		nanos  int64
		weight int
		job    *seen
	}
	var changes []change
	var starts []time.Time
	for _, j := range jobs {
		if j.queue != queues[0] {
			continue
		}
		for _, l := range j.lives() {
			if j.weight > 0 {
				changes = append(changes, change{l.from, j.weight, j}, change{l.to, -j.weight, j})
			}
		}
		for _, e := range j.log {
			if e.state == "starting" {
				starts = append(starts, e.at)
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.nanos, b.nanos), a.weight-b.weight) })
	for _, group := range []string{"", "plain", "stream", "brief", "asked", "sent", "fragile"} {
		limit := cmp.Or(r.settings.groups[group], r.settings.groups["*"])
		if group == "" { // all types
			limit = r.settings.limit
		}
		weight, alive := 0, map[*seen]int64{}
		for _, c := range changes {
			if limit == 0 || group != "" && group != c.job.jobType {
				continue
			}
			if weight += c.weight; c.weight < 0 {
				delete(alive, c.job)
				continue
			}
			alive[c.job] = c.nanos
			if weight > limit && len(alive) > 1 && !r.jumped(slices.Min(slices.Collect(maps.Values(alive))), c.nanos) {
				text := fmt.Sprintf("at %d ms handlers of weight %d ran at once under a limit of %d:", c.nanos/1e6, weight, limit)
				for j := range alive {
					text += "\n" + j.String()
				}
				bad = append(bad, text)
			}
		}
	}
	if rate := r.settings.rate; rate > 0 {
		slices.SortFunc(starts, time.Time.Compare)
		for i := rate; i < len(starts); i++ {
			if within := starts[i].Sub(starts[i-rate]); within < time.Second {
				bad = append(bad, fmt.Sprintf("%d starts within %s under a rate of %d/1s", rate+1, within, rate))
			}
		}
	}
	return bad
}

// life is the time in which a handler has shown that it runs an attempt, in nanoseconds.
type life struct {
	from, to int64
	parent   int
}

func (j *seen) lives() map[int]life {
	all := map[int]life{}
	for _, n := range j.notes {
		l, begun := all[n.attempt]
		if n.event == "start" {
			all[n.attempt] = life{n.nanos, n.nanos + 1, n.parent}
		} else if begun && n.event != "asked" { // the decision needs no room
			l.to = n.nanos
			all[n.attempt] = l
		}
	}
	return all
}

// crowded checks that no worker runs more attempts at once than its --concurrency.
func (r *round) crowded(jobs map[id]*seen) (bad []string) {
	changes := map[int][]int64{} // by worker: when attempts begin, and end as negative numbers
	for _, j := range jobs {
		for _, l := range j.lives() {
			changes[l.parent] = append(changes[l.parent], l.from, -l.to)
		}
	}
	for _, t := range r.ticks {
		i, running := slices.Index(t.cmd.Args, "--concurrency")+1, 0
		slots, err := strconv.Atoi(t.cmd.Args[i])
		if err != nil {
			continue
		}
		all := changes[t.pid]
		slices.SortFunc(all, func(a, b int64) int { return cmp.Or(cmp.Compare(max(a, -a), max(b, -b)), cmp.Compare(a, b)) })
		for _, c := range all {
			if running += btoi(c > 0) - btoi(c < 0); running > slots {
				bad = append(bad, fmt.Sprintf("%s ran %d attempts at once", t.cmd.Args[1:], running))
				break
			}
		}
	}
	return bad
}

// left returns the remaining processes of the round, and kills them. It waits a moment for those that are about to end.
func (r *round) left() (left []string) {
	for limit := time.Now().Add(5 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		left = nil
		isOver := time.Now().After(limit)
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range dirs {
			env, _ := os.ReadFile(filepath.Join(dir, "environ"))
			argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			if strings.Contains(string(env)+string(argv), r.config) || strings.Contains(string(argv), r.ledger+"\x00") {
				left = append(left, fmt.Sprintf("left behind: process %s: %s", filepath.Base(dir), strings.ReplaceAll(string(argv), "\x00", " ")))
				if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && isOver {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		if len(left) == 0 || isOver {
			return left
		}
	}
}
