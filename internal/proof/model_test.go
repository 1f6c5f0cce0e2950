package proof

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// The model is what the docs say a queue does. It knows nothing of hipq's code: it gets the test's operations and the activity
// in the order in which it was written, accepts only an entry that may come next, and says what the tables have afterwards. An mQueue is a queue.
type mQueue struct {
	name, order                       string         // order is highest, schedule, or empty for the lowest priority first
	groups                            map[string]int // "*" is all other groups
	limit, rate, shards, lane, starts int
	paused, forgetDone, forgetFailed  bool // to forget is that keep_finished or keep_failed is 0
	all                               bool // its "*" serves the types that have no handler
	types                             []*mType
	jobs                              []*mJob
	live                              map[string]*mJob // the jobs that are not final, by type and key
}

// mType is a job type of the config.
type mType struct {
	name, kind                          string // kind is exec, stream, http, or none without a handler
	later, async, asked, shut           bool   // later: its retries wait a day; asked: it has a retry handler; shut: its time windows are closed
	attempts, priority, factor, timeout int
}

// letters are what handlers do: the outcome, a part of the error, when they want to run again, and the result.
var letters = map[byte][4]string{
	'd': {"finished"}, 'D': {"finished", "", "", `{"pages":3}`}, 's': {"sent"}, 'f': {"failed", "no such customer"}, 'q': {"failed", ""},
	'r': {"retry", "busy"}, '0': {"retry", "busy", "now"}, 'l': {"retry", "later", "later"},
	'p': {"release", "", "later"}, 'P': {"release", "", "now"}, // the second counts
	'g': {"retry", ""}, 'x': {"retry", ""}, 'k': {"retry", "killed"}, 't': {"retry", "timeout after"},
}

func letter(of string, attempt int) byte { return of[min(attempt, len(of))-1] }
func btoi(b bool) int                    { return when(b, 1, 0) }
func when[T any](is bool, a, b T) T      { return map[bool]T{true: a, false: b}[is] }

// mSpec is what an application chooses for a job. Do and say are the letters of its handler and its retry handler, by attempt.
type mSpec struct {
	data, do, say, group      string
	priority, factor, timeout int
	shut                      bool
}

// mJob is a job. Its status is submitted, due, later, awaiting, undecided, finished, failed or closed.
type mJob struct {
	mSpec
	q                                             *mQueue
	t                                             *mType
	id                                            int64
	key, at, status, error, result, outcome, wish string // error is a part of it; outcome and wish of the last attempt decide on a retry
	attempt, uncounted, shard, place              int    // place is that in the order when a tick begins
	retryOf, retriedAs                            *mJob
	dismissed, gone, ready, moved                 bool     // ready: it is promoted, so the order holds for it; moved: its time may have changed
	log                                           []string // what the activity says next
}

// view are the states that people see of a job that doesn't wait.
var view = map[string]string{"awaiting": "running", "undecided": "error", "finished": "final", "failed": "final", "closed": "final"}

func (j *mJob) state() string   { return cmp.Or(view[j.status], when(j.attempt > 0, "retry", "initial")) }
func (j *mJob) final() bool     { return view[j.status] == "final" }
func (j *mJob) waits() bool     { return view[j.status] == "" }
func (j *mJob) wait(later bool) { j.status, j.moved = when(later || j.shut, "later", "due"), true }

func (j *mJob) future() bool       { return j.at > time.Now().UTC().Add(time.Second).Format(time.DateTime) }
func (j *mJob) class() string      { return fmt.Sprint(j.q.name, j.shard, j.group) } // what the order holds within
func (j *mJob) entry(state string) { j.log = append(j.log, fmt.Sprint(state, " ", j.attempt)) }

// takeIn accepts a row of a plain INSERT.
func (j *mJob) takeIn() {
	if j.status == "submitted" {
		j.entry("added")
		j.wait(j.future())
	}
}

// add enqueues a job. It returns the live job with that key, and its fate. How is ignore, replace, error, or insert by plain SQL.
func (q *mQueue) add(j *mJob, how string) (*mJob, string) {
	old := q.live[j.t.name+" "+j.key]
	switch {
	case old == nil:
		j.q, j.status, j.error, j.result = q, "submitted", "NONE", "NONE"
		if q.jobs, q.live[j.t.name+" "+j.key] = append(q.jobs, j), j; how != "insert" {
			j.takeIn()
		}
		return j, "added"
	case how == "replace" && old.waits() && old.attempt == 0:
		if old.mSpec, old.at, old.moved = j.mSpec, j.at, true; old.status != "submitted" { // the next tick takes that in
			old.wait(old.future())
		}
		return old, "replaced"
	}
	return old, when(how == "error", "refused", "duplicate")
}

// end makes a job final, with an entry of the activity.
func (j *mJob) end(status, entry, err string) {
	j.takeIn()
	j.entry(entry)
	j.status, j.error, j.gone = status, err, when(status == "finished", j.q.forgetDone, j.q.forgetFailed)
	delete(j.q.live, j.t.name+" "+j.key)
}

// isLast says whether the policy allows no attempt after the current one.
func (j *mJob) isLast() bool { return j.attempt-j.uncounted >= j.t.attempts }

// decide takes the retry decision. A retry handler says again, 0 for now, later, Other data and later, or z for final.
func (j *mJob) decide() {
	again, later := j.outcome != "failed" && !j.isLast(), j.wish == "later" || j.wish == "" && j.t.later
	if say := letter(j.say, j.attempt); j.t.asked && slices.Contains([]byte("a0lOz"), say) {
		again, later = say != 'z', say == 'l' || say == 'O' || say == 'a' && j.t.later
		if say == 'O' {
			j.data, j.do, j.group, j.priority = "other", "d", "", 7
		}
	}
	if j.result = "NONE"; again {
		j.entry("error")
		j.wait(later)
	} else {
		j.end("failed", "failed", j.error)
	}
}

// release puts a job back without an error. One that counts and is the last makes it fail.
func (j *mJob) release(counts, later bool) {
	if j.result = "NONE"; counts && j.isLast() {
		j.end("failed", "failed", "released in its last attempt")
		return
	}
	j.uncounted += btoi(!counts)
	j.entry("released")
	j.wait(later)
}

// last is the last job of a type and key, or nil.
func (q *mQueue) last(t *mType, key string) *mJob {
	all := append([]*mJob{nil}, q.those(func(o *mJob) bool { return o.t == t && o.key == key && !o.gone })...)
	return all[len(all)-1]
}

// answer is an outside answer, finished, failed or retry, to the last job of a type and key. It returns the command's word. Late says
// that the answer is to an earlier attempt.
func (q *mQueue) answer(t *mType, key, with string, late bool) (j *mJob, word string) {
	switch j = q.last(t, key); {
	case j == nil:
		word = "unknown"
	case j.final() && (j.status == "finished") != (with == "finished"), !j.final() && (j.attempt == 0 || late):
		word = "refused"
	case j.final(), with == "retry" && j.status != "awaiting":
		word = "already"
	case with == "retry":
		j.status, j.outcome, j.wish, j.error = "undecided", "retry", "", "answer"
	default:
		j.end(with, with, when(with == "finished", "NONE", "answer"))
	}
	return j, cmp.Or(word, "answered")
}

// operate is an operator's command. Its flag is cancel's --running and retry's --again. It returns the word and retry's other job.
func (j *mJob) operate(command string, flag bool, in string, priority int) (word string, other *mJob) {
	switch word = "refused"; {
	case command == "reschedule" && j.waits():
		j.status, j.moved = when(in == "" || j.status == "submitted", j.status, when(in != "0s" || j.shut, "later", "due")), j.moved || in != ""
		word, j.priority = "rescheduled", cmp.Or(priority, j.priority)
		j.entry(word)
	case command == "dismiss" && (j.status == "failed" || j.status == "closed"): // a second time does no harm
		if word = "dismissed"; j.status == "failed" {
			j.entry(word)
		}
		j.status, j.dismissed = "closed", j.dismissed || j.status == "failed"
	case command == "cancel" && (j.waits() || flag && !j.final()):
		word = "cancelled"
		j.end("closed", when(j.waits(), "cancelled", "failed"), "cancelled")
	case command == "retry" && j.final() && (flag || j.status != "finished" && j.retriedAs == nil && !j.dismissed):
		if other, word = j.q.add(&mJob{mSpec: j.mSpec, t: j.t, key: j.key, retryOf: j}, "ignore"); word == "added" {
			word, j.retriedAs, j.status = "retried", other, when(j.status == "failed", "closed", j.status)
			j.entry(word)
		}
	}
	return word, other
}

// those are the jobs for which a condition holds, in the order of their ids.
func (q *mQueue) those(are func(*mJob) bool) []*mJob {
	return slices.DeleteFunc(slices.Clone(q.jobs), func(j *mJob) bool { return !are(j) })
}

// due are the due jobs in their order.
func (q *mQueue) due() []*mJob {
	return slices.SortedFunc(slices.Values(q.those(func(j *mJob) bool { return j.status == "due" })), func(a, b *mJob) int {
		return cmp.Or(map[string]int{"": 1, "highest": -1}[q.order]*cmp.Compare(a.priority, b.priority), cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
	})
}

// counts are the columns of hipq status.
func (q *mQueue) counts() map[string]int {
	n := map[string]int{}
	for _, j := range q.those(func(j *mJob) bool { return !j.gone }) {
		status := when(j.status != "submitted", j.status, when(j.future(), "later", "due"))
		n[cmp.Or(map[string]string{"later": "scheduled", "awaiting": "waiting", "undecided": "error"}[status], status)]++
		n["retrying"] += btoi(j.waits() && j.attempt > 0)
	}
	return n
}

// mTick is a run of hipq work, or of a worker in SQL, or of hipq run.
type mTick struct {
	runs                 func(*mJob) bool
	slots, most, started int           // it starts most jobs at most, if not 0
	beside               time.Duration // without a limit, rounds at the same time may pass over a job for so long
	bySQL, byHand, two   bool          // two: two workers at once
	running              map[*mJob]bool
	rounds               map[string]map[string]int // the highest place of each round, by class and when it began
}

// newTick notes the order of the jobs that are due. Limits let jobs without a weight overtake.
func newTick(slots int, runs func(*mJob) bool, queues ...*mQueue) *mTick {
	for _, q := range queues {
		for i, j := range q.due() {
			j.place = (i + 1) * btoi(j.ready && (j.factor > 0 || q.limit < 1 && q.groups == nil))
		}
	}
	return &mTick{slots: slots, runs: runs, running: map[*mJob]bool{}, rounds: map[string]map[string]int{}}
}

// limited says what keeps a job from starting now.
func (k *mTick) limited(j *mJob) string {
	sum, group, lane := 0, 0, 0
	for _, o := range j.q.those(func(o *mJob) bool { return o.status == "awaiting" || k.running[o] }) {
		sum, group, lane = sum+o.factor, group+o.factor*btoi(o.group == j.group), lane+btoi(k.running[o])
	}
	switch limit := cmp.Or(j.q.groups[j.group], j.q.groups["*"]); {
	case j.q.paused && !k.byHand, j.q.rate > 0 && j.q.starts >= j.q.rate:
		return "pause or rate"
	case lane >= k.slots*(1+btoi(k.beside > 0)), j.q.lane > 0 && lane >= j.q.lane*(1+btoi(k.two)), k.most > 0 && k.started >= k.most:
		return "slots"
	case j.factor > 0 && limit > 0 && j.group != "" && group > 0 && group+j.factor > limit:
		return "group"
	case j.factor > 0 && j.q.limit > 0 && sum > 0 && sum+j.factor > j.q.limit:
		return "limit"
	}
	return ""
}

// next are the jobs that can start next. A job with a weight waits behind one that waits for the limit, also that of its group, and, if strict, behind one of another worker.
func (k *mTick) next(q *mQueue, n int, strict bool) (list []*mJob) {
	held, full := false, map[string]bool{}
	for _, j := range q.due() {
		over := k.limited(j)
		full[j.group] = full[j.group] || over == "group"
		held = held || over == "limit" || strict && q.limit > 0 && j.factor > 0 && !k.runs(j)
		if k.runs(j) && over == "" && (!held && !full[j.group] || j.factor == 0) && len(list) < n {
			k.running[j], list = true, append(list, j)
		}
	}
	clear(k.running)
	return list
}

// see takes the next entry about a job, and says why it may not come.
func (k *mTick) see(j *mJob, entry, at string) (err error) {
	if len(j.log) == 0 {
		j.takeIn()
	}
	switch foretold := len(j.log) > 0; {
	case !foretold && j.status == "undecided" && (k.runs(j) || !j.t.asked && !k.bySQL && k.slots > 0): // a retry policy doesn't mind --type
		j.decide()
	case foretold || !k.runs(j):
	case j.status == "due", j.status == "later" && k.byHand:
		err = k.start(j, at)
	}
	if len(j.log) == 0 || j.log[0] != entry {
		return cmp.Or(err, fmt.Errorf("the activity says %q of a job that is %s; next should be %q", entry, j.status, j.log))
	}
	if j.log = j.log[1:]; len(j.log) == 0 {
		delete(k.running, j)
	}
	return nil
}

// upTo is the highest place that rounds of a class have started which began before a time.
func (k *mTick) upTo(class, at string) (place int) {
	for began, up := range k.rounds[class] {
		place = max(place, up*btoi(began < at))
	}
	return place
}

// start runs the next attempt of a job until its outcome. Workers in SQL have no word for sent, and leave retry handlers to others.
func (k *mTick) start(j *mJob, at string) error {
	class, began, over := j.class(), fmt.Sprintf("%s %6d", at, k.started*btoi(k.slots == 1)), k.limited(j)
	k.rounds[class] = when(k.rounds[class] == nil, map[string]int{}, k.rounds[class])
	before := began
	if t, err := time.Parse(time.DateTime, at); err == nil && (j.q.limit < 1 || k.two) && k.beside > 0 {
		before = t.Add(-k.beside).Format(stamp6)
	}
	if over != "" {
		return fmt.Errorf("started although that is over a limit: %s; %d had started", over, k.started)
	} else if earlier := k.upTo(class, before); j.place > 0 && j.place < earlier {
		return fmt.Errorf("started at place %d of the order, but rounds before had started up to %d", j.place, earlier)
	}
	k.rounds[class][began], j.place = max(k.rounds[class][began], j.place), 0
	j.attempt, k.started, j.q.starts = j.attempt+1, k.started+1, j.q.starts+1
	j.entry("starting")
	does := letters[letter(j.do, j.attempt)]
	j.error, j.outcome, j.result = "NONE", "", cmp.Or(does[3], j.result)
	switch ends := does[0] == "sent" || does[0] == "finished"; {
	case does[0] == "sent" && !k.bySQL, ends && j.t.async:
		j.status = "awaiting"
	case ends:
		j.end("finished", "finished", "NONE")
	case does[0] == "release":
		j.release(does[2] == "now", does[2] == "later")
	default:
		if j.status, j.outcome, j.error, j.wish = "undecided", does[0], does[1], does[2]; !k.bySQL || !j.t.asked {
			j.decide()
		}
	}
	k.running[j] = !j.t.asked || j.outcome == "" // until its outcome is seen; a retry handler's job doesn't count
	return nil
}

// rest says what should not be left in a queue after a tick.
func (k *mTick) rest(q *mQueue) error {
	for _, j := range append(k.next(q, 1, true), q.those(func(j *mJob) bool {
		return j.status == "submitted" || k.runs(j) && (j.status == "undecided" || j.status == "due" && j.place > 0 && j.place < k.upTo(j.class(), "~"))
	})...) {
		if k.most == 0 || k.started < k.most {
			return fmt.Errorf("job %d of %s is left %s: weight %d, %q; place %d of %d", j.id, q.name, j.status, j.factor, k.limited(j), j.place, k.upTo(j.class(), "~"))
		}
	}
	return nil
}
