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

// mQueue is a queue. Its order is highest, schedule, or empty for the lowest priority first; "*" in groups is all other groups.
type mQueue struct {
	name, order               string
	groups                    map[string]int
	limit, rate, shards, lane int
	forgetDone, forgetFailed  bool // keep_finished or keep_failed is 0
	types                     []*mType
	paused                    bool
	starts                    int
	jobs                      []*mJob
	live                      map[string]*mJob // the jobs that are not final, by type and key
}

// mSpec is what an application chooses for a job. Do and say are the letters of its handler and its retry handler, by attempt.
type mSpec struct {
	data, do, say, group, at  string // at is scheduled_run_time
	priority, factor, timeout int
	shut                      bool
}

// mJob is a job. Its status is submitted, due, later, awaiting, undecided, finished, failed or closed.
type mJob struct {
	mSpec
	q                      *mQueue
	t                      *mType
	id                     int64
	key, status            string
	attempt, shard, place  int    // place is that in the order when a tick begins
	error, result          string // error is a part of it
	outcome, wish          string // of the last attempt, for the retry decision
	retryOf, retriedAs     *mJob
	dismissed, gone, ready bool     // ready: it is promoted, so the order holds for it
	log                    []string // what the activity says next
}

func (j *mJob) final() bool        { return j.state() == "final" }
func (j *mJob) waits() bool        { return j.state() == "initial" || j.state() == "retry" }
func (j *mJob) entry(state string) { j.log = append(j.log, fmt.Sprint(state, " ", j.attempt)) }

// state is the state that people see.
func (j *mJob) state() string {
	waits := map[bool]string{true: "retry", false: "initial"}[j.attempt > 0]
	return cmp.Or(map[string]string{"submitted": waits, "due": waits, "later": waits, "awaiting": "running", "undecided": "error"}[j.status], "final")
}

// wait makes a job due, or due later, also because its windows are closed.
func (j *mJob) wait(later bool) {
	j.status = map[bool]string{true: "later", false: "due"}[later || j.shut]
}

// takeIn accepts a row of a plain INSERT.
func (j *mJob) takeIn() {
	if j.status == "submitted" {
		j.entry("added")
		j.wait(j.at > time.Now().UTC().Add(time.Second).Format(time.DateTime))
	}
}

// insert is a plain INSERT of a key that is free.
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
		old.takeIn()
		old.mSpec = j.mSpec
		old.wait(later)
		return old, "replaced"
	}
	return old, "duplicate"
}

// end makes a job final, with an entry of the activity.
func (j *mJob) end(status, entry, err string) {
	j.takeIn()
	j.entry(entry)
	j.status, j.error = status, err
	delete(j.q.live, j.t.name+" "+j.key)
	j.gone = status == "finished" && j.q.forgetDone || status != "finished" && j.q.forgetFailed
}

// start runs the next attempt of a job until its outcome. Workers in SQL have no word for sent, and leave retry handlers to others.
func (j *mJob) start(bySQL bool) {
	j.attempt++
	j.entry("starting")
	j.q.starts++
	do := letter(j.do, j.attempt)
	l := letters[do]
	if j.error, j.outcome = "NONE", ""; do == 'D' {
		j.result = pages
	}
	switch {
	case l[0] == "sent" && !bySQL, (l[0] == "sent" || l[0] == "finished") && j.t.async:
		j.status = "awaiting"
	case l[0] == "sent" || l[0] == "finished":
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
	if j.result = "NONE"; !again {
		j.end("failed", "failed", j.error)
		return
	}
	j.entry("error")
	j.wait(later)
}

// answer is an outside answer, finished, failed or retry, to the job of a type and key. It returns the command's word.
func (q *mQueue) answer(t *mType, key, with string) (*mJob, string) {
	j, old := q.live[t.name+" "+key], q.those(func(o *mJob) bool { return o.t == t && o.key == key && !o.gone })
	switch {
	case j == nil && len(old) == 0:
		return nil, "unknown"
	case j == nil:
		last := old[len(old)-1]
		return last, map[bool]string{true: "already", false: "refused"}[(last.status == "finished") == (with == "finished")]
	case j.attempt == 0:
		return j, "refused"
	case with == "retry" && j.status != "awaiting":
		return j, "already"
	case with == "retry":
		j.status, j.outcome, j.wish, j.error = "undecided", "retry", "", "answer"
	default:
		j.end(with, with, map[string]string{"finished": "NONE", "failed": "answer"}[with])
	}
	return j, "answered"
}

// operate is an operator's command: dismiss, cancel (flag: --running), reschedule (--in and --priority), and retry (flag: --again),
// which also returns the new job, or the live one with its key.
func (j *mJob) operate(command string, flag bool, in string, priority int) (word string, other *mJob) {
	switch {
	case command == "reschedule" && j.waits():
		if j.takeIn(); in != "" {
			j.wait(in != "0s")
		}
		j.priority = cmp.Or(priority, j.priority)
		return "rescheduled", nil
	case command == "dismiss" && (j.status == "failed" || j.status == "closed"): // a second time does no harm
		j.status, j.dismissed = "closed", j.dismissed || j.status == "failed"
		return "dismissed", nil
	case command == "cancel" && (j.waits() || flag && !j.final()):
		j.end("closed", map[bool]string{true: "cancelled", false: "failed"}[j.waits()], "cancelled")
		return "cancelled", nil
	case command == "retry" && j.final() && (flag || j.status != "finished" && j.retriedAs == nil && !j.dismissed):
		now := j.mSpec
		now.at = ""
		c, word := j.q.add(&mJob{mSpec: now, t: j.t, key: j.key, retryOf: j}, false, "")
		if word == "duplicate" {
			return word, c
		}
		if j.retriedAs = c; j.status == "failed" {
			j.status = "closed"
		}
		return "retried", c
	}
	return "refused", nil
}

// those are the jobs for which a condition holds, in the order of their ids.
func (q *mQueue) those(are func(*mJob) bool) []*mJob {
	return slices.DeleteFunc(slices.Clone(q.jobs), func(j *mJob) bool { return !are(j) })
}

// due are the due jobs in their order.
func (q *mQueue) due() []*mJob {
	list, by := q.those(func(j *mJob) bool { return j.status == "due" }), map[string]int{"": 1, "highest": -1}[q.order]
	slices.SortFunc(list, func(a, b *mJob) int {
		return cmp.Or(by*cmp.Compare(a.priority, b.priority), strings.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
	})
	return list
}

// mTick is a run of hipq work, or of a worker in SQL, or of hipq run.
type mTick struct {
	runs                 func(*mJob) bool
	slots, most, started int // most is how many jobs it starts at most, or 0
	beside               int // how many rounds may overtake another without a limit
	bySQL, byHand        bool
	running              map[*mJob]bool
	rounds               map[string][]int  // the highest place up to each round
	at                   map[string]string // of the latest round
}

// newTick notes the order of the jobs that are due. Limits let jobs without a weight overtake.
func newTick(slots int, runs func(*mJob) bool, queues ...*mQueue) *mTick {
	for _, q := range queues {
		for i, j := range q.due() {
			j.place = (i + 1) * btoi(j.ready && (j.factor > 0 || q.limit < 1 && q.groups == nil))
		}
	}
	return &mTick{slots: slots, runs: runs, running: map[*mJob]bool{}, rounds: map[string][]int{}, at: map[string]string{}}
}

// limited says what keeps a job from starting now: the rate, its group, or the queue's limit.
func (k *mTick) limited(j *mJob) string {
	sum, group := 0, 0
	for _, o := range j.q.jobs {
		if o != j && (o.status == "awaiting" || k.running[o]) {
			if sum += o.factor; o.group == j.group {
				group += o.factor
			}
		}
	}
	limit := cmp.Or(j.q.groups[j.group], j.q.groups["*"])
	switch {
	case j.q.rate > 0 && j.q.starts >= j.q.rate:
		return "rate"
	case j.factor > 0 && limit > 0 && j.group != "" && group > 0 && group+j.factor > limit:
		return "group"
	case j.factor > 0 && j.q.limit > 0 && sum > 0 && sum+j.factor > j.q.limit:
		return "limit"
	}
	return ""
}

// next are the jobs that can start next, n at most. A job that waits for the limit holds back all later ones with a weight. So does,
// for a while, one that waited for another worker: whether it did is free.
func (k *mTick) next(q *mQueue, n int) (list []*mJob) {
	held := false
	for _, j := range q.due() {
		why := k.limited(j)
		if held = held || why == "limit" || q.limit > 0 && j.factor > 0 && !k.runs(j); k.runs(j) && !q.paused && why == "" && (!held || j.factor == 0) && len(list) < n {
			k.running[j] = true
			list = append(list, j)
		}
	}
	clear(k.running)
	return list
}

// see takes the next entry about a job, and says why it may not come.
func (k *mTick) see(j *mJob, entry, at string) error {
	switch {
	case len(j.log) > 0: // foretold
	case j.status == "submitted":
		j.takeIn()
	case k.runs(j) && (j.status == "due" || k.byHand && j.status == "later"):
		if err := k.start(j, at); err != nil {
			return err
		}
	case j.status == "undecided" && k.runs(j):
		j.decide()
	}
	if len(j.log) == 0 || j.log[0] != entry {
		return fmt.Errorf("the activity says %q of a job that is %s; next should be %q", entry, j.status, j.log)
	}
	if j.log = j.log[1:]; len(j.log) == 0 {
		delete(k.running, j)
	}
	return nil
}

// class is what the order holds within: the shard, and the throttle group if the queue has some.
func (j *mJob) class() string {
	return fmt.Sprint(j.q.name, j.shard, map[bool]string{false: j.group}[j.q.groups == nil])
}

// start starts a job.
func (k *mTick) start(j *mJob, at string) error {
	class, lane := j.class(), 0
	r := k.rounds[class]
	if at != k.at[class] || k.slots == 1 {
		r, k.at[class] = append(r, slices.Max(append(r, 0))), at
	}
	k.rounds[class] = r
	for o, runs := range k.running {
		lane += btoi(runs && o.q == j.q)
	}
	over := k.limited(j)
	switch earlier := len(r) - 2 - k.beside*btoi(j.q.limit < 1); {
	case over != "", j.q.paused && !k.byHand, k.beside == 0 && lane >= k.slots, j.q.lane > 0 && lane >= j.q.lane, k.most > 0 && k.started >= k.most:
		return fmt.Errorf("started although that is over a limit (%s; %d running, %d started, paused: %v)", over, lane, k.started, j.q.paused)
	case j.place > 0 && earlier >= 0 && j.place < r[earlier]:
		return fmt.Errorf("started at place %d of the order, but jobs up to place %d had started", j.place, r[earlier])
	}
	r[len(r)-1], j.place = max(r[len(r)-1], j.place), 0
	k.started++
	j.start(k.bySQL)
	k.running[j] = !j.t.asked || j.outcome == "" // until its outcome is seen; a retry handler's job counts no more
	return nil
}

// rest says what should not be left in a queue after a tick.
func (k *mTick) rest(q *mQueue) error {
	left := append(k.next(q, 1), q.those(func(j *mJob) bool {
		r := k.rounds[j.class()]
		return j.status == "submitted" || k.runs(j) && (j.status == "undecided" || len(r) > 0 && j.status == "due" && j.place > 0 && j.place < r[len(r)-1])
	})...)
	if len(left) > 0 && (k.most == 0 || k.started < k.most) {
		j := left[0]
		return fmt.Errorf("job %d of %s is left %s: attempt %d, weight %d, %q; place %d, started up to %d", j.id, q.name, j.status, j.attempt,
			j.factor, k.limited(j), j.place, k.rounds[j.class()])
	}
	return nil
}
