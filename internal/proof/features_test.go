package proof

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
)

// features runs random operations, and compares outputs, exit codes and tables with the model's. rapid shrinks a sequence with
// a difference, and prints it as commands. Its own flags outrank the round's seed and sizes.
func features(r *round) {
	set := map[string]string{"rapid.seed": fmt.Sprint(r.seed), "rapid.checks": "20", "rapid.steps": "20", "rapid.shrinktime": "3m", "rapid.nofailfile": "true"}
	for name, value := range set {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			dbtest.OK(r.t, flag.Set(name, value))
			defer func() { _ = flag.Set(name, f.DefValue) }()
		}
	}
	i := newInstance(r)
	if !r.t.Run("rapid", func(t *testing.T) { rapid.Check(t, i.check) }) {
		r.over["hipq and the model differ: the test's output has the commands"] = true
	}
	r.more = i.jobs
	took := time.Since(i.began)
	r.t.Logf("%d operations, %d jobs, %.0f jobs/s, %v", i.steps, i.jobs, float64(i.jobs)/took.Seconds(), i.spent)
}

// check is one sequence of operations.
func (i *instance) check(t *rapid.T) {
	p := i.begin(t)
	actions := map[string]func(*rapid.T){
		"answer": p.answer, "cancel": p.operate("cancel"), "retry": p.operate("retry"),
		"dismiss": p.operate("dismiss"), "reschedule": p.operate("reschedule"), "pause": p.pause, "run": p.byHand, "one": p.one, "replace": p.replace,
		"insert": p.insert, "status": p.status, "monitor": p.monitor, "purge": p.purge, "schedule": p.schedule, "settings": p.settings,
	}
	if p.driver == "mysql" {
		actions["submit"], actions["sql worker"] = p.submit, p.sqlWorker
	}
	for i := range 5 { // as often as all others together
		actions[fmt.Sprint("batch ", i)], actions[fmt.Sprint("work ", i)] = p.batch, p.work
	}
	before := i.steps
	defer func() { i.inject("%d operations", i.steps-before) }()
	t.Repeat(actions)
	for _, q := range p.queues {
		p.sync(nil, q)
	}
}

func pick[T any](t *rapid.T, what string, of ...T) T { return rapid.SampledFrom(of).Draw(t, what) }

// rapid prints drawn values by these.
func (q *mQueue) GoString() string { return q.name }
func (t *mType) GoString() string  { return t.name }
func (j *mJob) GoString() string   { return fmt.Sprint("job ", j.id, " of ", j.q.name) }

func (p *play) queue() *mQueue { return pick(p.T, "queue", p.queues...) }

// spec draws a job: its type and what the application chooses. Its key is unique, or one of a few, or that of a live job. (No stream
// gives a reply that can't be read: that may end other jobs of its program.)
func (p *play) spec(q *mQueue, on string) (*mJob, bool) {
	t, key := pick(p.T, "type", q.types...), ""
	if retries := q.retries(); on == "replace" && len(retries) > 0 && rapid.Bool().Draw(p.T, "twin of a retry") {
		twin := pick(p.T, "twin", retries...)
		t, key = twin.t, twin.key
	} else if rapid.IntRange(0, 4).Draw(p.T, "twin") == 4 {
		if twin := p.job(q); twin != nil && !twin.final() {
			t, key = twin.t, twin.key
		}
	}
	does := map[string]string{"exec": "dDrflsgxqk0pP", "http": "dDrflsgxqpP", "stream": "dDrfls0pP", "none": "d"}[t.kind]
	if t.name == "brief" {
		does = "ddddddt"
	}
	if t.name == "stream" { // its retries cost a tick a second
		does = "ddddDDfflllllsssr0pP"
	}
	do := rapid.StringOfN(rapid.RuneFrom([]rune(does)), 1, 3, -1).Draw(p.T, "do")
	say := rapid.StringOfN(rapid.RuneFrom([]rune("lalO0xb")), 0, 2, -1).Draw(p.T, "say") + "z"
	group := pick(p.T, "group", when(q.groups == nil, []string{""}, []string{"", "a", "b", "c"})...)
	s := mSpec{do: do, say: say, group: group, priority: t.priority, factor: t.factor, timeout: t.timeout, shut: t.shut}
	j := &mJob{mSpec: s, t: t, q: q, key: key}
	switch pick(p.T, "special", "", "", "priority", "past", "future", "shut", "factor", "timeout") {
	case "priority":
		j.priority = rapid.IntRange(-3, 3).Draw(p.T, "priority")
	case "past":
		if t.shut { // the opening after that would be past too
			break
		}
		j.at = p.anchor.Add(time.Duration(rapid.IntRange(0, 9).Draw(p.T, "past")) * time.Second).Format(time.DateTime)
	case "future":
		j.at = p.anchor.Add(96 * time.Hour).Format(time.DateTime)
	case "shut":
		j.shut = true
	case "factor":
		j.factor = rapid.IntRange(0, 5).Draw(p.T, "factor") % (2 + 4*btoi(q.groups == nil))
	case "timeout":
		j.timeout = t.timeout + 1
	}
	return j, key == "" && pick(p.T, "key", "its own", "its own", "its own", "one of a few") == "its own"
}

// copies makes n jobs of a drawn one.
func (p *play) copies(j *mJob, own bool, n int) (list []*mJob) {
	for i := range n {
		c := *j
		p.n++
		if own {
			c.key = fmt.Sprint("j", p.n)
		}
		c.key = cmp.Or(c.key, fmt.Sprint("k", i%3))
		c.data = fmt.Sprintf(`{"n":%d,"do":%q,"say":%q,"g":%q}`, p.n, c.do, c.say, c.group)
		list = append(list, &c)
	}
	return list
}

// fields are what an application names for a job: only what differs from the type's defaults.
func (p *play) fields(j *mJob) map[string]any {
	f := map[string]any{"queue": j.q.name, "job_type": j.t.name, "job_key": j.key, "job_data": json.RawMessage(j.data)}
	if j.priority != j.t.priority {
		f["priority"] = j.priority
	}
	if j.factor != j.t.factor {
		f["throttle_factor"] = j.factor
	}
	if j.timeout != j.t.timeout {
		f["timeout"] = j.timeout
	}
	if j.shut && !j.t.shut {
		f["time_windows"] = []string{p.shut}
	}
	if j.at != "" {
		f["scheduled_run_time"] = strings.Replace(j.at, " ", "T", 1) + "Z"
	}
	return f
}

// batch enqueues NDJSON, perhaps with a bad line.
func (p *play) batch(t *rapid.T) {
	p.T = t
	on := pick(t, "on duplicate", "ignore", "ignore", "replace", "error")
	var lines []*mJob
	for range rapid.IntRange(1, 4).Draw(t, "kinds") {
		j, own := p.spec(p.queue(), on)
		n := pick(t, "copies", 1, 2, 20, 150, 300, 400)
		if j.t.kind == "exec" || j.t.asked || !own { // each costs a process, or has one of a few keys
			n = min(n, 10)
		}
		if strings.ContainsAny(j.do, "t") {
			n = 1
		}
		lines = append(lines, p.copies(j, own, n)...)
	}
	bad := -1
	if rapid.IntRange(0, 9).Draw(t, "bad line") == 9 {
		bad = rapid.IntRange(0, len(lines)-1).Draw(t, "at")
	}
	var text strings.Builder
	code, added, duplicates := 0, 0, 0
	touched := map[*mQueue]bool{}
	for i, j := range lines {
		line := dbtest.Must(json.Marshal(p.fields(j)))(p.T)
		if i == bad {
			line = line[1:]
		}
		fmt.Fprintf(&text, "%s\n", line)
		if code > 0 {
			continue
		}
		if i == bad {
			code = 1
			continue
		}
		touched[j.q] = true
		switch _, word := j.q.add(j, on); word {
		case "added":
			p.expect(j)
			added++
		case "refused":
			code = 1
		default:
			duplicates++
		}
	}
	got := p.hipq(code, text.String(), "enqueue", "--ndjson", "-", "--on-duplicate", on)
	if code == 0 {
		p.same(got, map[string]any{"added": added, "duplicates": duplicates})
	}
	p.sync(nil, p.those(touched)...)
}

func (p *play) those(set map[*mQueue]bool) (list []*mQueue) {
	for _, q := range p.queues {
		if set[q] {
			list = append(list, q)
		}
	}
	return list
}

// same compares objects of a command's output with those that the model says, as far as these name fields.
func (p *play) same(got []map[string]any, want ...map[string]any) {
	p.Helper()
	dbtest.Require(p.T, len(got) == len(want), "printed %v, want %v", got, want)
	for i, w := range want {
		for key, value := range w {
			dbtest.Require(p.T, fmt.Sprint(got[i][key]) == fmt.Sprint(value), "printed %q: %v, want %v; all: %v", key, got[i][key], value, got)
		}
	}
}

// retries are the jobs that wait for a retry, so no other replaces them.
func (q *mQueue) retries() []*mJob {
	return q.those(func(j *mJob) bool { return j.waits() && j.attempt > 0 })
}

// replace enqueues a job, in many cases with the key of one that waits for a retry.
func (p *play) replace(t *rapid.T) {
	p.T = t
	some := slices.DeleteFunc(slices.Clone(p.queues), func(q *mQueue) bool { return len(q.retries()) == 0 })
	dbtest.SkipIf(t, len(some) == 0, "no retry")
	p.flags(pick(t, "queue", some...), "replace")
}

// one enqueues a job.
func (p *play) one(t *rapid.T) {
	p.T = t
	p.flags(p.queue(), pick(t, "on duplicate", "ignore", "replace", "error"))
}

// flags enqueues a job by flags.
func (p *play) flags(q *mQueue, on string) {
	t := p.T
	j, own := p.spec(q, on)
	j = p.copies(j, own, 1)[0]
	fields := p.fields(j)
	args := []string{"enqueue", q.name, j.t.name, "--key", j.key, "--data", j.data, "--on-duplicate", on}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch name {
		case "time_windows":
			args = append(args, "--window", p.shut)
		case "scheduled_run_time":
			args = append(args, "--at", value.(string))
		case "priority", "throttle_factor":
			args = append(args, fmt.Sprintf("--%s=%v", strings.ReplaceAll(name, "_", "-"), value))
		case "timeout":
			args = append(args, fmt.Sprintf("--timeout=%vs", value))
		}
	}
	if old := q.live[j.t.name+" "+j.key]; rapid.Bool().Draw(t, "dry run") {
		code := btoi(old != nil && (on != "replace" || !old.waits() || old.attempt > 0))
		p.hipq(code, "", append(args, "--dry-run")...)
	}
	got, word := q.add(j, on)
	out := p.hipq(btoi(word == "refused"), "", args...)
	if word == "added" {
		p.expect(j)
	}
	p.sync(nil, q)
	if word != "refused" {
		p.same(out, map[string]any{"id": got.id, "queue": q.name, "duplicate": word != "added"})
	}
}

// insert is a transaction of an application with plain INSERTs.
func (p *play) insert(t *rapid.T) {
	p.T = t
	q := p.queue()
	j, own := p.spec(q, "error")
	tx := dbtest.Must(p.db.Begin())(t)
	for _, j := range p.copies(j, own, pick(t, "copies", 1, 2, 30)) {
		columns, values := "", []any{}
		fields := p.fields(j)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			value := fields[name]
			switch name {
			case "queue":
				continue
			case "job_data":
				value = j.data
			case "time_windows":
				value = fmt.Sprintf("[%q]", p.shut)
			case "scheduled_run_time":
				value = j.at
			}
			columns, values = columns+", "+name, append(values, value)
		}
		statement := "INSERT INTO shop_" + q.name + " (" + columns[2:] + ") VALUES (" + strings.Repeat(", ?", len(values))[2:] + ")"
		p.Logf("%s %v", statement, values)
		_, err := tx.Exec(statement, values...)
		_, word := q.add(j, "insert")
		dbtest.Require(t, (err == nil) == (word == "added"), "%s: %v", j.key, err)
		if err == nil {
			p.expect(j)
		}
	}
	dbtest.OK(t, tx.Commit())
	p.sync(nil, q)
}

// work is a tick of some queues, types and slots.
func (p *play) work(t *rapid.T) {
	p.T = t
	args, queues := []string{"work"}, p.queues
	if rapid.Bool().Draw(t, "one queue") {
		queues = []*mQueue{p.queue()}
		args = append(args, queues[0].name)
	}
	slots, due := pick(t, "slots", 50, 50, 50, 7, 1), 0
	for _, q := range queues {
		due += q.counts()["due"]
	}
	if due > 100 {
		slots = 50
	}
	args = append(args, "--run-for", "10m", "--concurrency", fmt.Sprint(slots))
	types := []string{}
	if rapid.IntRange(0, 4).Draw(t, "some types") == 4 {
		types = append(types, pick(t, "type", queues[0].types[:10]...).name, "stream")
		args = append(args, "--type", types[0], "--type", types[1])
	}
	k := newTick(slots, func(j *mJob) bool {
		return j.t.kind != "none" && slices.Contains(queues, j.q) && (len(types) == 0 || slices.Contains(types, j.t.name))
	}, queues...)
	k.beside = when(p.driver == "mysql" && slots > 1, 3*time.Second, 0) // a row that another round has locked is looked for again after a second
	if rapid.IntRange(0, 4).Draw(t, "most") == 4 {
		k.most = rapid.IntRange(1, 60).Draw(t, "max jobs")
		args = append(args, "--max-jobs", fmt.Sprint(k.most))
	}
	begun := time.Now().UTC()
	if k.two = k.most == 0 && slots == 50 && rapid.Bool().Draw(t, "two workers"); k.two {
		k.beside = 3 * time.Second
		t.Logf("at once with the next command: hipq %q", args)
		wait := p.launch("", args...)
		ended := sync.OnceFunc(func() {
			_, stderr, code := wait()
			dbtest.Require(t, code == 0, "the other worker: exit code %d\n%s", code, stderr)
		})
		defer ended()
		p.hipq(0, "", args...)
		ended()
	} else {
		p.hipq(0, "", args...)
	}
	p.sync(k, queues...)
	for _, q := range queues {
		if err := k.rest(q); err != nil {
			for _, r := range p.rows(q) {
				if r.state != "final" && r.status != "scheduled" {
					t.Logf("%+v", r)
				}
			}
			t.Fatal(err)
		}
	}
	if queues[0] == p.queues[0] {
		p.slotsDone(begun, k.most == 0)
	}
}

// job draws a job of a queue: first a status, then a job that has it.
func (p *play) job(q *mQueue) *mJob {
	by := map[string][]*mJob{}
	for _, j := range q.jobs {
		if !j.gone {
			by[j.status] = append(by[j.status], j)
		}
	}
	if len(by) == 0 {
		return nil
	}
	names := []string{}
	for s := range by {
		names = append(names, s)
	}
	slices.Sort(names)
	return pick(p.T, "job", by[pick(p.T, "status", names...)]...)
}

// answer is an answer from outside.
func (p *play) answer(t *rapid.T) {
	p.T = t
	q := p.queue()
	j := p.job(q)
	dbtest.SkipIf(t, j == nil, "no job")
	with := pick(t, "answer", "finished", "failed", "retry")
	key := pick(t, "key", j.key, j.key, "nobody's")
	args := []string{map[string]string{"finished": "complete"}[with], q.name, j.t.name, key}
	if args[0] == "" {
		args[0] = "fail"
		args = append(args, "--error", "answer")
	}
	if with == "retry" {
		args = append(args, "--retry")
	}
	bySQL, options, late := p.bySQL(), map[string]any{}, false
	if with != "finished" {
		options["error"] = "answer"
	}
	if bySQL && rapid.Bool().Draw(t, "token") {
		token := p.tokens[fmt.Sprint(q.id(j.id), " ", rapid.IntRange(max(0, j.attempt-1), j.attempt).Draw(t, "of attempt"))]
		if last := q.last(j.t, key); token != "" && last != nil {
			options["token"], late = token, token != p.tokens[fmt.Sprint(q.id(last.id), " ", last.attempt)]
		}
	}
	got, word := q.answer(j.t, key, with, late)
	refused := word == "unknown" || word == "refused"
	if bySQL {
		again := word == "answered" && with == "retry"
		if with == "retry" && rapid.Bool().Draw(t, "release") {
			with, options["retry_after"] = "release", "3d"
			if delete(options, "error"); again {
				got.error = "NONE"
				got.release(false, true)
			}
		} else if again && !got.t.asked { // the procedure applies the policy
			got.decide()
		}
		out, ok := p.try("job_answer", q.name, nil, j.t.name, key, with, nil, asJSON(t, options))
		p.sync(nil, q)
		if dbtest.Require(t, ok == !refused, "job_answer: %v, but the model says %s", out, word); ok {
			p.row(out, got.state(), btoi(word == "answered"))
		}
		return
	}
	out := p.hipq(btoi(refused), "", args...)
	p.sync(nil, q)
	want := map[string]any{"result": word, "changed": word == "answered"}
	if got != nil {
		want["id"], want["state"], want["attempt"] = got.id, got.state(), got.attempt
	}
	p.same(out, want)
}

// operate is a command that changes jobs, by ids or by a filter.
func (p *play) operate(command string) func(*rapid.T) {
	return func(t *rapid.T) {
		p.T = t
		q := p.queue()
		args := []string{command, q.name}
		flag := map[string]string{"cancel": "--running", "retry": "--again"}[command]
		if flag == "" || !rapid.Bool().Draw(t, "flag") {
			flag = ""
		}
		var jobs []*mJob
		if rapid.Bool().Draw(t, "by ids") {
			for range rapid.IntRange(1, 3).Draw(t, "ids") {
				if j := p.job(q); j != nil && !slices.Contains(jobs, j) {
					jobs, args = append(jobs, j), append(args, fmt.Sprint(j.id))
				}
			}
			dbtest.SkipIf(t, len(jobs) == 0, "no job")
		} else {
			jobs, args = p.filter(q, command, flag, args)
		}
		in, priority := "", 0
		if command == "reschedule" {
			in = pick(t, "in", "0s", "2d", "")
			if in != "" {
				args = append(args, "--in", in)
			}
			if in == "" || rapid.Bool().Draw(t, "with priority") {
				priority = rapid.IntRange(1, 5).Draw(t, "priority")
				args = append(args, "--priority", fmt.Sprint(priority))
			}
		}
		if bySQL := args[len(args)-1] != "--yes" && flag != "--again" && p.bySQL(); bySQL {
			for _, j := range jobs {
				p.operateBySQL(j, command, flag != "", in, priority)
			}
			return
		}
		if flag != "" {
			args = append(args, flag)
		}
		var want []map[string]any
		var others []*mJob
		code := 0
		for _, j := range jobs {
			word, other := j.operate(command, flag != "", in, priority)
			if word == "retried" {
				p.expect(other)
			}
			others = append(others, other)
			code |= btoi(word == "refused")
			want = append(want, map[string]any{"id": j.id, "result": word, "queue": q.name})
		}
		out := p.hipq(code, "", args...)
		p.sync(nil, q)
		for i, other := range others {
			if other != nil {
				want[i]["new_id"] = other.id
			}
		}
		p.same(out, want...)
	}
}

// filter draws a filter, and returns the jobs that it selects, the newest last.
func (p *play) filter(q *mQueue, command, flag string, args []string) ([]*mJob, []string) {
	may := func(j *mJob) bool {
		return j.status == "failed" || command == "retry" && flag != "" && j.status == "closed"
	}
	switch command {
	case "cancel":
		may = func(j *mJob) bool { return j.waits() || flag != "" && !j.final() }
	case "reschedule":
		may = (*mJob).waits
	}
	is := func(*mJob) bool { return true }
	switch kind := pick(p.T, "filter", "all", "type", "key", "error"); kind {
	case "all":
		args = append(args, "--all")
	case "type":
		t := pick(p.T, "type", q.types[:11]...) // not the unknown one
		is = func(j *mJob) bool { return j.t == t }
		args = append(args, "--type", t.name)
	case "key":
		key := pick(p.T, "key", "k0", "k1")
		is = func(j *mJob) bool { return j.key == key }
		args = append(args, "--key", key)
	case "error":
		is = func(j *mJob) bool { return strings.Contains(j.error, "busy") }
		args = append(args, "--error", "busy")
	}
	var jobs []*mJob
	for _, j := range q.jobs {
		if !j.gone && may(j) && is(j) {
			jobs = append(jobs, j)
		}
	}
	if n := rapid.IntRange(0, 40).Draw(p.T, "limit"); n > 0 {
		jobs = jobs[max(0, len(jobs)-n):]
		args = append(args, "--limit", fmt.Sprint(n))
	}
	return jobs, append(args, "--yes")
}

// pause pauses or resumes a queue.
func (p *play) pause(t *rapid.T) {
	p.T = t
	q, paused := p.queue(), rapid.Bool().Draw(t, "pause")
	word := "already"
	if paused != q.paused {
		word = map[bool]string{true: "paused", false: "resumed"}[paused]
	}
	q.paused = paused
	if p.bySQL() {
		p.row(p.call("queue_pause", q.name, paused), btoi(paused))
		p.sync(nil, q)
		return
	}
	p.same(p.hipq(0, "", "queues", map[bool]string{true: "pause", false: "resume"}[paused], q.name),
		map[string]any{"queue": q.name, "paused": paused, "result": word})
	p.sync(nil, q)
}

// byHand is hipq run.
func (p *play) byHand(t *rapid.T) {
	p.T = t
	q := p.queue()
	j := p.job(q)
	dbtest.SkipIf(t, j == nil || j.status == "submitted", "no job")
	k := newTick(1, func(o *mJob) bool { return o == j }, q)
	k.byHand = true
	code := 1
	if (j.status == "due" || j.status == "later") && j.t.kind != "none" && k.limited(j) == "" {
		code = btoi(!slices.Contains([]string{"finished", "sent", "release"}, letters[letter(j.do, j.attempt+1)][0]))
		next := *j
		if next.attempt++; letter(j.do, next.attempt) == 'P' && next.isLast() {
			code = 1
		}
		k.most = 1
	}
	p.hipq(code, "", "run", q.name, fmt.Sprint(j.id))
	p.sync(k, q)
	dbtest.Require(t, k.started == k.most, "started %d attempts instead of %d", k.started, k.most)
}

// status compares hipq status and lists with the model.
func (p *play) status(t *rapid.T) {
	p.T = t
	out := p.hipq(0, "", "status")
	for _, q := range p.queues {
		want := map[string]any{"queue": q.name, "paused": q.paused}
		n := q.counts()
		for _, column := range []string{"scheduled", "locked", "running", "error", "failed", "finished", "waiting", "closed", "retrying"} {
			want[column] = n[column]
		}
		for _, o := range out[0]["queues"].([]any) {
			if o := o.(map[string]any); o["queue"] == q.name {
				p.same([]map[string]any{o}, want)
				due := int(o["due"].(float64)) + int(o["held"].(float64))
				dbtest.Require(t, due == n["due"], "%s: %d jobs are due or held, want %d", q.name, due, n["due"])
				break
			}
		}
	}
}

// settings changes the config: the attempts of all types, and the limit of a queue.
func (p *play) settings(t *rapid.T) {
	p.T = t
	attempts, limit := rapid.IntRange(1, 3).Draw(t, "attempts"), pick(t, "limit", 4, 2, 0)
	for _, q := range p.queues {
		for _, kind := range q.types {
			kind.attempts = attempts
		}
	}
	p.queues[1].limit = limit
	p.configure()
	p.hipq(0, "", "init")
	p.Logf("the config has retry.attempts: %d for all types, and throttle_limit: %d for %s", attempts, limit, p.queues[1].name)
}
