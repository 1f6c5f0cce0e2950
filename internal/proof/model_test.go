package proof

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The model is what SPEC.md says a queue does. It knows nothing of hipq's code: it gets the test's operations and the activity
// in the order in which it was written, accepts only an entry that may come next, and says what the tables have afterwards.

// mType is a job type with its settings.
type mType struct {
	name string
	// kind is how its handler runs: exec, stream, http, or none for no handler.
	kind     string
	attempts int
	// later is true if the policy's delay is a day; otherwise it is 0.
	later, async, asked bool
	// shut is true if its time windows are closed during the test.
	shut                      bool
	priority, factor, timeout int
}

// mQueue is a queue with its settings and jobs. Live has the jobs that are not final by type and key.
type mQueue struct {
	name string
	// order is highest, schedule, or empty for the lowest priority first.
	order string
	// groups are the limits of throttle groups; "*" is for all others.
	groups                    map[string]int
	limit, rate, shards, lane int
	forgetDone, forgetFailed  bool
	types                     []*mType
	paused                    bool
	starts                    int
	jobs                      []*mJob
	live                      map[string]*mJob
}

// mSpec is what an application chooses for a job. Do and say are the letters of its handler and of its retry handler.
type mSpec struct {
	data, do, say, group      string
	at                        string // scheduled_run_time as the table has it, for the order
	priority, factor, timeout int
	shut                      bool
}

// mJob is a job. Its status is submitted, due, later, awaiting, undecided, finished, failed or closed.
type mJob struct {
	mSpec
	q                  *mQueue
	t                  *mType
	id                 int64
	key, status        string
	attempt, shard     int
	error, result      string // error is a part of the error
	outcome, wish      string // of the last attempt, for the retry decision
	retryOf, retriedAs *mJob
	dismissed, gone    bool
	place              int      // in the order at the beginning of a tick
	log                []string // what the activity says next
}

func (j *mJob) final() bool {
	return slices.Contains([]string{"finished", "failed", "closed"}, j.status)
}
func (j *mJob) waits() bool        { return slices.Contains([]string{"submitted", "due", "later"}, j.status) }
func (j *mJob) entry(state string) { j.log = append(j.log, fmt.Sprint(state, " ", j.attempt)) }

// state is the state that people see.
func (j *mJob) state() string {
	switch {
	case j.final():
		return "final"
	case j.waits() && j.attempt > 0:
		return "retry"
	case j.waits():
		return "initial"
	case j.status == "undecided":
		return "error"
	}
	return "running"
}

// wait makes a job due, or due later, also because its windows are closed.
func (j *mJob) wait(later bool) {
	if j.status = "due"; later || j.shut {
		j.status = "later"
	}
}

// insert is a plain INSERT of a key that is free. The next tick takes the job in.
func (q *mQueue) insert(j *mJob) {
	j.q, j.status, j.error, j.result = q, "submitted", "NONE", "NONE"
	q.jobs, q.live[j.t.name+" "+j.key] = append(q.jobs, j), j
}

// add enqueues a job. If a live job has its key, it returns that job, and what happens to it.
func (q *mQueue) add(j *mJob, later bool, onDuplicate string) (*mJob, string) {
	old := q.live[j.t.name+" "+j.key]
	switch {
	case old == nil:
		q.insert(j)
		j.wait(later)
		j.entry("added")
		return j, "added"
	case onDuplicate == "error":
		return old, "refused"
	case onDuplicate == "replace" && old.waits() && old.attempt == 0:
		if old.status == "submitted" {
			old.entry("added")
		}
		old.mSpec = j.mSpec
		old.wait(later)
		return old, "replaced"
	}
	return old, "duplicate"
}

// end makes a job final, and writes the entry of its last attempt.
func (j *mJob) end(status, entry, err string) {
	j.entry(entry)
	j.status, j.error = status, err
	delete(j.q.live, j.t.name+" "+j.key)
	j.gone = status == "finished" && j.q.forgetDone || status != "finished" && j.q.forgetFailed
}

// letters are what handlers do: the outcome, a part of the error, and when they want to run again.
var letters = map[byte][3]string{
	'd': {"finished"}, 'D': {"finished"}, 's': {"sent"}, 'f': {"failed", "no such customer"}, 'q': {"failed", ""},
	'r': {"retry", "busy"}, '0': {"retry", "busy", "now"}, 'l': {"retry", "later", "later"},
	'g': {"retry", ""}, 'x': {"retry", ""}, 'k': {"retry", "killed"}, 't': {"retry", "timeout after 1s"},
}

func letter(of string, attempt int) byte { return of[min(attempt, len(of))-1] }

const pages = `{"pages":3}`

// start runs the next attempt of a job until its outcome.
func (j *mJob) start(bySQL bool) {
	j.attempt++
	j.q.starts++
	do := letter(j.do, j.attempt)
	l := letters[do]
	if do == 's' && bySQL { // which have no such word
		l = letters['d']
	}
	if j.error = "NONE"; do == 'D' {
		j.result = pages
	}
	switch {
	case l[0] == "sent", l[0] == "finished" && j.t.async:
		j.status = "awaiting"
	case l[0] == "finished":
		j.end("finished", "finished", "NONE")
	default:
		j.status, j.outcome, j.error, j.wish = "undecided", l[0], l[1], l[2]
		if !bySQL || !j.t.asked {
			j.decide()
		}
	}
}

// decide takes the retry decision, by the retry handler's letter if there is one: again, now, later, later with Other data,
// z for final; with all others it fails.
func (j *mJob) decide() {
	again, later := j.outcome != "failed" && j.attempt < j.t.attempts, j.wish == "later" || j.wish == "" && j.t.later
	if say := letter(j.say, j.attempt); j.t.asked && strings.IndexByte("a0lOz", say) >= 0 {
		again, later = say != 'z', say == 'l' || say == 'O' || say == 'a' && j.t.later
		if say == 'O' {
			j.data, j.do, j.group, j.priority = "other", "d", "", 7
		}
	}
	if !again {
		j.end("failed", "failed", j.error)
		return
	}
	j.entry("error")
	j.wait(later)
}

// answer is an outside answer, finished, failed or retry, to the job of a type and key. It returns the command's word.
func (q *mQueue) answer(t *mType, key, with string) (*mJob, string) {
	j := q.live[t.name+" "+key]
	switch {
	case j == nil:
		for _, old := range slices.Backward(q.jobs) {
			if old.t.name == t.name && old.key == key && !old.gone {
				return old, map[bool]string{true: "already", false: "refused"}[(old.status == "finished") == (with == "finished")]
			}
		}
		return nil, "unknown"
	case j.attempt == 0:
		return j, "refused"
	case with == "retry" && j.status != "awaiting":
		return j, "already"
	case with == "retry":
		j.status, j.outcome, j.wish, j.error = "undecided", "retry", "", "answer"
	case with == "finished":
		j.end(with, with, "NONE")
	default:
		j.end(with, with, "answer")
	}
	return j, "answered"
}

// cancel is hipq cancel, and running its flag.
func (j *mJob) cancel(running bool) string {
	if j.final() || !j.waits() && !running {
		return "refused"
	}
	j.end("closed", map[bool]string{true: "cancelled", false: "failed"}[j.waits()], "cancelled")
	return "cancelled"
}

// retry is hipq retry, and again its flag: a new job like the failed one, once.
func (j *mJob) retry(again bool) (*mJob, string) {
	if !j.final() || !again && (j.status == "finished" || j.retriedAs != nil || j.dismissed) {
		return nil, "refused"
	}
	c, word := j.q.add(&mJob{mSpec: j.mSpec, t: j.t, key: j.key, retryOf: j}, false, "")
	if word == "duplicate" {
		return c, word
	}
	if j.retriedAs = c; j.status == "failed" {
		j.status = "closed"
	}
	return c, "retried"
}

// dismiss is hipq dismiss.
func (j *mJob) dismiss() string {
	if j.status != "failed" && !j.dismissed {
		return "refused"
	}
	j.status, j.dismissed = "closed", true
	return "dismissed"
}

// rank compares jobs by the order of their queue.
func rank(a, b *mJob) int {
	p := map[string]int{"": 1, "highest": -1}[a.q.order] * cmp.Compare(a.priority, b.priority)
	return cmp.Or(p, strings.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
}

// tick is a run of hipq work, or of a worker in SQL. Most is how many jobs it starts at most, or 0.
type tick struct {
	runs        func(*mJob) bool
	slots, most int
	byHand      bool
	bySQL       bool
	started     int
	running     map[*mJob]bool
	rounds      map[string]*[2]int // the highest place before the latest round, and in it
	at          map[string]string
}

// grab are the jobs that a worker in SQL gets: the next in order that fit.
func (k *tick) grab(q *mQueue, n int) (list []*mJob) {
	var due []*mJob
	for _, j := range q.jobs {
		if j.status == "due" && !q.paused {
			due = append(due, j)
		}
	}
	slices.SortFunc(due, rank)
	k.running = map[*mJob]bool{}
	held := false
	for _, j := range due {
		full := k.limited(j) != ""
		if held = held || full; !k.runs(j) || full || held && j.factor > 0 || len(list) == n {
			continue
		}
		k.running[j] = true
		list = append(list, j)
	}
	k.running = nil
	return list
}

// reschedule is hipq reschedule.
func (j *mJob) reschedule(in string, priority int) string {
	if !j.waits() {
		return "refused"
	}
	if in != "" {
		j.wait(in != "0s")
	}
	if priority > 0 {
		j.priority = priority
	}
	return "rescheduled"
}

// begin notes the order of the jobs that are due.
func (k *tick) begin(q *mQueue) {
	if k.running == nil {
		k.running, k.rounds, k.at = map[*mJob]bool{}, map[string]*[2]int{}, map[string]string{}
	}
	var due []*mJob
	for _, j := range q.jobs {
		if j.place = 0; j.status == "due" && k.runs(j) && (j.factor > 0 || q.limit < 1 && q.groups == nil) {
			due = append(due, j)
		}
	}
	slices.SortFunc(due, rank)
	for i, j := range due {
		j.place = i + 1
	}
}

// limited says what keeps a job from starting now: the rate, its group, or the queue's limit.
func (k *tick) limited(j *mJob) string {
	sum, group := 0, 0
	for _, o := range j.q.jobs {
		if o != j && (o.status == "awaiting" || k.running[o]) {
			if sum += o.factor; o.group == j.group {
				group += o.factor
			}
		}
	}
	limit, grouped := j.q.groups[j.group]
	if !grouped {
		limit, grouped = j.q.groups["*"]
	}
	switch {
	case j.q.rate > 0 && j.q.starts >= j.q.rate:
		return "rate"
	case j.factor > 0 && grouped && j.group != "" && group > 0 && group+j.factor > limit:
		return "group"
	case j.factor > 0 && j.q.limit > 0 && sum > 0 && sum+j.factor > j.q.limit:
		return "limit"
	}
	return ""
}

// see takes the next entry about a job, and says why it may not come.
func (k *tick) see(j *mJob, entry, at string) error {
	state, _, _ := strings.Cut(entry, " ")
	switch {
	case len(j.log) > 0: // foretold
	case state == "added" && j.status == "submitted":
		j.wait(j.at > time.Now().UTC().Format(time.DateTime))
		j.entry("added")
	case state == "starting" && k.runs(j) && (j.status == "due" || k.byHand && j.status == "later"):
		return k.start(j, entry, at)
	case j.status == "undecided" && k.runs(j):
		j.decide()
	}
	if len(j.log) == 0 || j.log[0] != entry {
		return fmt.Errorf("the activity says %q of a job that is %s, attempt %d; next should be %q", entry, j.status, j.attempt, j.log)
	}
	j.log = j.log[1:]
	delete(k.running, j)
	return nil
}

func (k *tick) start(j *mJob, entry, at string) error {
	class, lane := fmt.Sprint(j.q.name, j.shard), 0
	if j.q.groups != nil {
		class += j.group
	}
	r := k.rounds[class]
	if r == nil {
		r = &[2]int{}
		k.rounds[class] = r
	}
	if at != k.at[class] || k.slots == 1 {
		r[0], k.at[class] = r[1], at
	}
	for o := range k.running {
		if o.q == j.q {
			lane++
		}
	}
	over := k.limited(j)
	switch {
	case over != "", j.q.paused && !k.byHand, lane >= k.slots, j.q.lane > 0 && lane >= j.q.lane, k.most > 0 && k.started >= k.most:
		return fmt.Errorf("started although that is over a limit (%s; %d running, %d started)", over, lane, k.started)
	case j.place > 0 && j.place < r[0]:
		return fmt.Errorf("started at place %d of the order, after the one at %d", j.place, r[0])
	}
	r[1], j.place = max(r[1], j.place), 0
	k.started++
	if j.start(k.bySQL); entry != fmt.Sprint("starting ", j.attempt) {
		return fmt.Errorf("%q should be that of attempt %d", entry, j.attempt)
	}
	if len(j.log) > 0 {
		k.running[j] = true
	}
	return nil
}

// rest says why a job of a queue should not be left after a tick.
func (k *tick) rest(q *mQueue) error {
	var due []*mJob
	for _, j := range q.jobs {
		if len(j.log) > 0 {
			return fmt.Errorf("job %d of %s: the activity doesn't say %q", j.id, q.name, j.log)
		}
		if j.status == "submitted" || j.status == "undecided" && k.runs(j) || j.status == "due" && !q.paused {
			due = append(due, j)
		}
	}
	if k.most > 0 && k.started >= k.most {
		return nil
	}
	slices.SortFunc(due, rank)
	held := false // a job that waits for the limit holds back all others with a weight
	for _, j := range due {
		why := ""
		if j.status == "due" {
			why = k.limited(j)
		}
		if held = held || why == "limit"; k.runs(j) && why == "" && !(held && j.factor > 0) || j.status == "submitted" {
			return fmt.Errorf("job %d of %s is left %s after the tick", j.id, q.name, j.status)
		}
	}
	return nil
}

// slots are the times of a schedule with @every after one time, up to another.
func slots(every time.Duration, after, upTo time.Time) (list []time.Time) {
	for s := after.Truncate(every).Add(every); !s.After(upTo); s = s.Add(every) {
		list = append(list, s)
	}
	return list
}

// counts are the columns of hipq status.
func (q *mQueue) counts() map[string]int {
	n := map[string]int{}
	for _, j := range q.jobs {
		if column := map[string]string{"submitted": "due", "later": "scheduled", "awaiting": "waiting", "undecided": "error"}[j.status]; !j.gone {
			n[cmp.Or(column, j.status)]++
		}
		if j.waits() && j.attempt > 0 {
			n["retrying"]++
		}
	}
	return n
}
