package admin

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// Tally is how many jobs a queue has by status, each up to TallyMost of it.
type Tally map[Status]int64

// paused counts 1 for a paused queue.
const paused Status = "paused"

// Paused reports whether the queue is paused.
func (t Tally) Paused() bool { return t[paused] > 0 }

// TallyMost is up to how many jobs of a status are counted, so that the cost doesn't depend on the queue's length. What
// somebody may have to mend is counted further.
func TallyMost(s Status) int64 {
	if s == Due || s == Failed {
		return 10_000
	}
	return 1000
}

// tallied are the ranges of the index that Tally counts, because a condition on more than the range would read all of it.
// Due jobs are in three of them.
var tallied = []struct {
	status Status
	where  string
	index  string
}{
	{Due, "status = 'available'", ""},
	{Due, "status = 'submitted' AND scheduled_run_time <= {now}", ""},
	{Due, "wake_time <= {now} AND status = 'scheduled'", "wake"},
	{Scheduled, "status = 'scheduled'", ""},
	{Held, conditions[Held], ""},
	{Locked, conditions[Locked], ""},
	{Running, "status IN ('running', 'answered')", ""},
	{Waiting, conditions[Waiting], ""},
	{Error, conditions[Error], ""},
	{Failed, conditions[Failed], ""},
	{Closed, conditions[Closed], ""},
	{Finished, conditions[Finished], ""},
}

// Tallies counts the jobs of queues of one database in one query.
func Tallies(ctx context.Context, queues ...*queue.Queue) (all []Tally, err error) {
	var parts []string
	var args []any
	for n, of := range queues {
		q := Of(of)
		all = append(all, Tally{})
		for _, t := range tallied {
			hint := q.s.ClaimIndex()
			if t.index != "" {
				hint = q.s.Index(t.index)
			}
			where := strings.ReplaceAll(t.where, "{now}", "(SELECT "+q.s.DB().SQL.NowSQL+")")
			parts = append(parts, "SELECT ? AS queue, ? AS status, COUNT(*) AS n FROM (SELECT 1 FROM "+q.s.Table()+" "+hint+" WHERE "+where+" LIMIT ?) AS some")
			args = append(args, n, string(t.status), TallyMost(t.status))
		}
		parts = append(parts, "SELECT ? AS queue, ? AS status, COUNT(*) AS n FROM "+q.s.DB().Queues()+" WHERE queue = ? AND paused <> 0")
		args = append(args, n, string(paused), of.Name)
	}
	if len(queues) == 0 {
		return nil, nil
	}
	err = Of(queues[0]).s.DB().SQL.Read(ctx, engine.Query{SQL: strings.Join(parts, " UNION ALL "), Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		var status Status
		var queue int
		var n int64
		err := row.Scan(&queue, &status, &n)
		if err == nil {
			all[queue][status] = min(all[queue][status]+n, TallyMost(status))
		}
		return err
	})})
	return all, texts.Wrap(err, "count the jobs")
}

// pageSteps are how many IDs one query of a walk looks at: few at first, because the newest jobs mostly have what is asked for, and
// rows may be long.
const pageSteps, pageStepsMost = 1000, 8000

// listColumns are what a list of jobs shows.
var listColumns = store.Only("id", "job_type", "job_key", "status", "attempt", "error", "scheduled_run_time", "start_time", "update_time", "priority",
	"retried_as", "create_time", "progress", "progress_note", "progress_attempt", "progress_time", "losses", "shard", "worker_id")

// PageOptions say which page of a list of jobs to read.
type PageOptions struct {
	// After is where the page before ended; empty for the first.
	After string
	// Oldest lists the oldest jobs first.
	Oldest bool
	// Within is how long to look for matching jobs.
	Within time.Duration
	// Ranges may be nil.
	Ranges *Ranges
}

// List is a page of a list of jobs.
type List struct {
	Jobs []*job.Job
	// Next is where the next page begins, empty if there is none.
	Next string
	// Looked is how many jobs were looked at.
	Looked int64
}

// Page returns up to by.Limit of the selected jobs: those of a status by their run time, the latest first, others by ID. They
// lack data, result and output. If the time is over before the page is full, it ends early. Each job that stays as it is comes on
// one page. The cost doesn't depend on the queue's length.
func (q *Queue) Page(ctx context.Context, by Filter, o PageOptions) (l List, err error) {
	l.Next, l.Looked, err = q.eachUntil(ctx, by, o, listColumns, func(j *job.Job) bool {
		l.Jobs = append(l.Jobs, j)
		return len(l.Jobs) < by.Limit
	})
	return l, texts.Wrap(err, "list jobs of %s", q.s.Name)
}

// NewestFailures is Failures among up to most jobs with the latest run times that it finds within a time.
func (q *Queue) NewestFailures(ctx context.Context, by Filter, most int, within time.Duration) (Failures, error) {
	by.Status = cmp.Or(by.Status, Failed)
	g, n, full := grouping{by: by, at: map[[2]string]int{}}, 0, by
	full.Limit = most
	next, _, err := q.eachUntil(ctx, full, PageOptions{Within: within}, failureColumns, func(j *job.Job) bool {
		g.add(j)
		n++
		return n < most
	})
	found := g.sorted()
	found.More = next != ""
	return found, texts.Wrap(err, "group the failures of %s", q.s.Name)
}

// eachUntil calls f with the selected jobs until f returns false, or the time is over. next is where to go on. looked is how many
// jobs it looked at.
func (q *Queue) eachUntil(ctx context.Context, by Filter, o PageOptions, of store.Selection, f func(*job.Job) bool) (next string, looked int64, err error) {
	read := func(ids []int64) (found map[int64]*job.Job, err error) {
		found = map[int64]*job.Job{}
		slices.Sort(ids)
		err = q.each(ctx, by, ids, of, func(j *job.Job) error {
			if by.Fingerprint == "" || texts.Fingerprint(j.Error) == by.Fingerprint {
				found[j.ID] = j
			}
			return nil
		})
		return found, err
	}
	look := q.lookByID
	if by.Status != "" && (by.Type == "" || by.Key == "") {
		look = q.lookByTime
	}
	return look(ctx, by, o, func(some []place) (end int, err error) {
		found, err := read(texts.Map(some, func(p place) int64 { return p.ID }))
		for n, p := range some {
			if j := found[p.ID]; j != nil && !f(j) {
				return n + 1, err
			}
		}
		return -1, err
	})
}

// place is a job's place in a list.
type place struct {
	ID      int64
	At      string // the run time as the tables have it
	Attempt int
}

func (p place) String() string { return p.At + "/" + strconv.FormatInt(p.ID, 10) }

// parsePlace is the place that String wrote.
func parsePlace(text string) (p place, err error) {
	at, id, ok := strings.Cut(text, "/")
	p.At = at
	if p.ID, err = strconv.ParseInt(id, 10, 64); !ok || err != nil {
		return p, ErrPage
	}
	_, err = engine.ParseTime(at)
	if at != "" && err != nil {
		return p, ErrPage
	}
	return p, nil
}

// ErrPage is the error if PageOptions.After is not a text from Page.
var ErrPage = errors.New("this is not where a page ended")

// lookByID looks at all jobs by their IDs. take returns how many of them it takes, -1 for all.
func (q *Queue) lookByID(ctx context.Context, by Filter, o PageOptions, take func([]place) (int, error)) (next string, looked int64, err error) {
	var ends struct{ Low, High int64 }
	if err := q.s.DB().SQL.GetContext(ctx, &ends, "SELECT COALESCE((SELECT MIN(id) FROM "+q.s.Table()+"), 1) AS low, COALESCE((SELECT MAX(id) FROM "+q.s.Table()+"), 0) AS high"); err != nil {
		return "", looked, err
	}
	low, high := ends.Low, ends.High
	if o.After != "" {
		p, err := parsePlace(o.After)
		if err != nil {
			return "", looked, err
		}
		if o.Oldest {
			low = p.ID + 1
		} else {
			high = p.ID - 1
		}
	}
	deadline := time.Now().Add(o.Within)
	for step := int64(pageSteps); low <= high; {
		began := time.Now()
		from, to, order := max(low, high-step+1), high, " DESC"
		if o.Oldest {
			from, to, order = low, min(high, low+step-1), ""
		}
		w, hint := q.where(by)
		if by.Type == "" || by.Key == "" {
			hint = q.s.DB().SQL.ByID
		} else {
			from, to = low, high // the index finds them all
		}
		w.And("id >= ?", from)
		w.And("id <= ?", to)
		var ids []int64
		query := "SELECT id FROM " + q.s.Table() + " " + hint + w.SQL() + " ORDER BY id" + order + " LIMIT ?"
		if err := q.s.DB().SQL.SelectContext(ctx, &ids, query, append(w.Args, by.Limit)...); err != nil {
			return "", looked, err
		}
		some := texts.Map(ids, func(id int64) place { return place{ID: id} })
		end, err := take(some)
		switch {
		case err != nil:
			return "", looked, err
		case end > 0:
			return some[end-1].String(), looked + int64(end), nil
		case len(ids) == by.Limit: // not all of the step was read
			if o.Oldest {
				to = ids[len(ids)-1]
			} else {
				from = ids[len(ids)-1]
			}
		}
		looked += to - from + 1
		if time.Since(began) < o.Within/4 {
			step = min(2*step, pageStepsMost)
		}
		if o.Oldest {
			low = to + 1
		} else {
			high = from - 1
		}
		if low <= high && time.Now().After(deadline) {
			return map[bool]place{true: {ID: low - 1}, false: {ID: high + 1}}[o.Oldest].String(), looked, nil
		}
	}
	return "", looked, nil
}

// stretch is a range of the index $claim in which jobs are in the order of their run times.
type stretch struct {
	Status  string
	Place   int `db:"shard"`
	Part    string
	JobType string        `db:"job_type"`
	Rank    sql.NullInt64 `db:"run_rank"` // NULL if plain SQL leaves it to the job type
}

const stretchColumns = "status, shard, part, job_type, run_rank"

func (s stretch) where() (w engine.Where) {
	w.And("status = ? AND shard = ? AND part = ? AND job_type = ?", s.Status, s.Place, s.Part, s.JobType)
	if s.Rank.Valid {
		w.And("run_rank = ?", s.Rank.Int64)
	} else {
		w.And("run_rank IS NULL")
	}
	return w
}

// dueNow are the due jobs that rounds may take.
const dueNow Status = "available"

// stored are the statuses of the rows that may have a status.
var stored = map[Status][]string{
	Initial: waitingStatuses, Retry: waitingStatuses, Running: {"running", "answered", "awaiting"}, Error: {"deciding", "undecided"},
	Final: {"finished", "failed", "closed"}, Due: {"available", "submitted", "scheduled"}, Held: {"throttled"}, Scheduled: {"submitted", "scheduled"},
	Locked: {"locked"}, Waiting: {"awaiting"}, Failed: {"failed"}, Closed: {"closed"}, Finished: {"finished"}, dueNow: {"available"},
}

var waitingStatuses = []string{"submitted", "available", "scheduled", "throttled", "locked"}

// Ranges remembers for a while which ranges of the index a queue has, because each costs a statement. It is safe for concurrent
// use.
type Ranges struct {
	mu    sync.Mutex
	known map[string]remembered
}

type remembered struct {
	until time.Time
	all   []stretch
}

// rangeAge is how long ranges are remembered for each of them, and rangesAge is the longest time.
const rangeAge, rangesAge = 2 * time.Second, time.Minute

// Forget forgets all, because jobs of new types or priorities may have been added.
func (r *Ranges) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = nil
}

func (r *Ranges) get(of string) ([]stretch, bool) {
	if r == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known[of]
	return k.all, time.Now().Before(k.until)
}

func (r *Ranges) set(of string, all []stretch) {
	if r == nil || len(all) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]remembered{}
	}
	r.known[of] = remembered{time.Now().Add(min(time.Duration(len(all)+1)*rangeAge, rangesAge)), all}
}

// stretches returns the stretches of a filter's status. It jumps from one to the next, because MariaDB reads a whole index for
// a GROUP BY.
func (q *Queue) stretches(ctx context.Context, by Filter, known *Ranges) (all []stretch, err error) {
	for _, status := range stored[by.Status] {
		name := q.s.Name + "/" + status
		some, ok := known.get(name)
		if !ok {
			if some, err = q.stretchesOf(ctx, status); err != nil {
				return nil, err
			}
			known.set(name, some)
		}
		for _, s := range some {
			if (by.Type == "" || s.JobType == by.Type) && (by.Place == 0 || s.Place == by.Place) {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

func (q *Queue) stretchesOf(ctx context.Context, status string) (all []stretch, err error) {
	from := " FROM " + q.s.Table() + " " + q.s.ClaimIndex()
	// MariaDB would sort if a column with one value were in ORDER BY.
	s, wheres, args := stretch{}, []string{"status = ? ORDER BY shard, part, job_type, run_rank"}, []any{status}
	for {
		parts := texts.Map(wheres, func(where string) string {
			return "SELECT * FROM (SELECT " + stretchColumns + from + " WHERE " + where + " LIMIT 1) AS a"
		})
		err := q.s.DB().SQL.GetContext(ctx, &s, strings.Join(parts, " UNION ALL ")+" LIMIT 1", args...)
		if errors.Is(err, sql.ErrNoRows) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		rank, ranks := "run_rank IS NOT NULL", []any(nil)
		if s.Rank.Valid {
			rank, ranks = "run_rank > ?", []any{s.Rank.Int64}
		}
		wheres = []string{
			"status = ? AND shard = ? AND part = ? AND job_type = ? AND " + rank + " ORDER BY run_rank",
			"status = ? AND shard = ? AND part = ? AND job_type > ? ORDER BY job_type, run_rank",
			"status = ? AND shard = ? AND part > ? ORDER BY part, job_type, run_rank", "status = ? AND shard > ? ORDER BY shard, part, job_type, run_rank",
		}
		args = slices.Concat([]any{status, s.Place, s.Part, s.JobType}, ranks, []any{status, s.Place, s.Part, s.JobType, status, s.Place, s.Part, status, s.Place})
	}
}

// lookByTime looks at the jobs of a status in the order of their run times, which the index has within each stretch.
func (q *Queue) lookByTime(ctx context.Context, by Filter, o PageOptions, take func([]place) (int, error)) (next string, looked int64, err error) {
	deadline := time.Now().Add(o.Within)
	stretches, err := q.stretches(ctx, by, o.Ranges)
	if err != nil || len(stretches) == 0 {
		return "", looked, err
	}
	var after *place
	if o.After != "" {
		p, err := parsePlace(o.After)
		if err != nil {
			return "", looked, err
		}
		after = &p
	}
	for by.Limit = min(by.Limit+1, 2000); ; by.Limit = min(4*by.Limit, 2000) {
		some, err := q.merged(ctx, by, stretches, after, o.Oldest)
		if err != nil || len(some) == 0 {
			return "", looked, err
		}
		last := some[len(some)-1]
		looked += int64(len(some))
		matching := slices.DeleteFunc(slices.Clone(some), func(p place) bool {
			return by.Status == Retry && p.Attempt == 0 || by.Status == Initial && p.Attempt > 0
		})
		end, err := take(matching)
		switch {
		case err != nil:
			return "", looked, err
		case end > 0 && matching[end-1] == last && len(some) < by.Limit:
			return "", looked, nil
		case end > 0:
			return matching[end-1].String(), looked, nil
		case len(some) < by.Limit:
			return "", looked, nil
		case time.Now().After(deadline):
			return last.String(), looked, nil
		}
		after = &last
	}
}

// merged returns the next places of all stretches together.
func (q *Queue) merged(ctx context.Context, by Filter, stretches []stretch, after *place, oldest bool) (all []place, err error) {
	order, beyond := " DESC", "<"
	if oldest {
		order, beyond = "", ">"
	}
	var parts []string
	var args []any
	add := func(w engine.Where) {
		parts = append(parts, "SELECT * FROM (SELECT id, "+q.s.DB().SQL.TimeText("t.scheduled_run_time")+" AS at, attempt FROM "+q.s.Table()+" AS t "+q.s.ClaimIndex()+w.SQL()+
			" ORDER BY t.scheduled_run_time"+order+", id"+order+" LIMIT ?) AS a")
		args = append(append(args, w.Args...), by.Limit)
	}
	now := "(SELECT " + q.s.DB().SQL.NowSQL + ")"
	for _, s := range stretches {
		w := s.where()
		switch {
		case by.Status == Due && s.Status != "available":
			w.And("t.scheduled_run_time <= " + now)
		case by.Status == Scheduled:
			w.And("t.scheduled_run_time > " + now)
		}
		if after == nil {
			add(w)
			continue
		}
		same := w.Clone()
		same.And("t.scheduled_run_time = ?", after.At)
		same.And("id "+beyond+" ?", after.ID)
		add(same)
		w.And("t.scheduled_run_time "+beyond+" ?", after.At)
		add(w)
	}
	err = q.s.DB().SQL.SelectContext(ctx, &all, "SELECT * FROM ("+strings.Join(parts, " UNION ALL ")+") AS a ORDER BY at"+order+", id"+order+" LIMIT ?", append(args, by.Limit)...)
	return all, err
}

// By returns the queue for a person: the activity of what she cancels and adds says that it was her.
func (q *Queue) By(who string) *Queue { return &Queue{q.s, who} }

// note is what the activity's output says of a change.
func (q *Queue) note() string {
	if q.who == "" {
		return ""
	}
	return "by " + q.who
}

// AddJob adds a job, as the application's queue does, and notes who did it.
func (q *Queue) AddJob(ctx context.Context, j job.Params) (added job.Added, err error) {
	prepared, err := q.s.Prepare([]job.Params{j}) // once, so that a repeated transaction finds its job
	if err != nil {
		return added, err
	}
	err = q.s.DB().SQL.Tx(ctx, func(tx *engine.Tx) error {
		list, err := q.s.Add(ctx, tx, prepared, false, q.note())
		if err == nil {
			added = list[0]
			added.Duplicate = added.Duplicate && !tx.MayBeDone
		}
		return err
	})
	return added, texts.Wrap(err, "enqueue in %s", q.s.Name)
}
