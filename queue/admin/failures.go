package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// failuresMost is how many kinds of failures are distinguished, among the newest failuresAmong jobs.
const failuresMost, failuresAmong = 1000, 1_000_000

// Failure is a group of jobs of one type with the same error fingerprint, which ignores numbers, IDs, times and quoted paths.
type Failure struct {
	Type string `json:"job_type"`
	// Fingerprint is eight hex digits that these errors share. It is stable across hipq versions.
	Fingerprint string `json:"fingerprint"`
	// Jobs is the number of jobs in the group.
	Jobs int64 `json:"jobs"`
	// First is when the first of these jobs failed.
	First job.Time `json:"first"`
	// Last is when the last of these jobs failed.
	Last job.Time `json:"last"`
	// Hours is how many jobs failed in each hour; the keys are the beginnings of the hours, in UTC.
	Hours map[time.Time]int64 `json:"-"`
	// Example is the id of the newest job.
	Example int64 `json:"example"`
	// Error is the beginning of its error.
	Error string `json:"-"`
	// State is "failed", "retry" (the jobs will be retried) or, with --state=closed, "closed".
	State Status `json:"state"`
	// NextRetry is when the first of these jobs is retried, if State is "retry".
	NextRetry job.Time `json:"next_retry"`
}

// Failures are the selected failed jobs, grouped by failure.
type Failures struct {
	// Kinds are the groups with the newest jobs, largest group first.
	Kinds []Failure
	// Others is how many jobs failed in other ways.
	Others int64
	// More says that Failures ignored older jobs.
	More bool
}

var failureColumns = store.Only("id", "job_type", "status", "error", "update_time", "scheduled_run_time")

// Failures groups jobs by type and error fingerprint. by.Status is Failed (the default), Closed or Retry; by.Limit limits the
// groups, at most 1,000. It reads the newest million jobs in pages, and locks nothing.
func (q *Queue) Failures(ctx context.Context, by Filter) (Failures, error) {
	by.Status = cmp.Or(by.Status, Failed)
	ids, err := q.newest(ctx, by, failuresAmong+1)
	if err != nil {
		return Failures{}, err
	}
	g := newGrouping(by)
	err = q.each(ctx, by, ids[:min(len(ids), failuresAmong)], failureColumns, func(j *job.Job) error {
		g.add(j)
		return nil
	})
	return g.sorted(len(ids) > failuresAmong), err
}

type grouping struct {
	by    Filter
	found Failures
	// at has the indexes of the kinds.
	at map[[2]string]int
}

func newGrouping(by Filter) grouping { return grouping{by: by, at: map[[2]string]int{}} }

func (g *grouping) add(j *job.Job) {
	key := [2]string{j.Type, texts.Fingerprint(j.Error)}
	n, known := g.at[key]
	switch {
	case g.by.Fingerprint != "" && g.by.Fingerprint != key[1], g.by.Status == Retry && j.Error == job.None:
		return
	case !known && len(g.found.Kinds) == min(cmp.Or(max(g.by.Limit, 0), failuresMost), failuresMost):
		g.found.Others++
		return
	case !known:
		n, g.at[key] = len(g.found.Kinds), len(g.found.Kinds)
		beginning := strings.ToValidUTF8(j.Error[:min(len(j.Error), texts.FingerprintBytes)], "")
		g.found.Kinds = append(g.found.Kinds, Failure{
			Type: j.Type, State: g.by.Status, Fingerprint: key[1], First: job.Time{Time: j.UpdateTime}, Example: j.ID, Error: beginning,
			Hours: map[time.Time]int64{},
		})
	}
	f := &g.found.Kinds[n]
	f.Jobs++
	f.Hours[j.UpdateTime.UTC().Truncate(time.Hour)]++
	if next := f.NextRetry; g.by.Status == Retry && (next.IsZero() || j.ScheduledRunTime.Before(next.Time)) {
		f.NextRetry.Time = j.ScheduledRunTime
	}
	f.First.Time = slices.MinFunc([]time.Time{f.First.Time, j.UpdateTime}, time.Time.Compare)
	f.Last.Time = slices.MaxFunc([]time.Time{f.Last.Time, j.UpdateTime}, time.Time.Compare)
}

// sorted returns copies of the groups, the largest first.
func (g *grouping) sorted(more bool) Failures {
	found := Failures{slices.Clone(g.found.Kinds), g.found.Others, more}
	for i := range found.Kinds {
		found.Kinds[i].Hours = maps.Clone(found.Kinds[i].Hours)
	}
	slices.SortStableFunc(found.Kinds, func(a, b Failure) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return found
}

// Kind is a group of failures of one queue.
type Kind struct {
	Queue string `json:"queue"`
	Failure
}

// Cause has the failures of all queues and types whose errors are the same, apart from what fingerprints ignore and the names of the
// queue and the type.
type Cause struct {
	// Error is the beginning of the newest error.
	Error string
	// Jobs is the number of jobs in all Kinds.
	Jobs int64
	// First is when the first of these jobs failed, and Last when the last did.
	First, Last job.Time
	// Hours is how many jobs failed in each hour; the keys are the beginnings of the hours, in UTC.
	Hours map[time.Time]int64
	// Kinds are the largest first. Retry and dismiss each by its queue, type and fingerprint.
	Kinds []Kind
}

// Grouping groups the failures of queues step by step, the latest run time first in each queue. It is safe for concurrent use.
type Grouping struct {
	mu     sync.Mutex
	queues []*Queue
	by     Filter
	groups []grouping
	after  []string
	// at is the queue that is being grouped; len(queues) if all are.
	at   int
	jobs int64
}

// NewGrouping begins to group jobs by type and error. by.Status is Failed (the default), Closed or Retry.
func NewGrouping(by Filter, queues ...*queue.Queue) *Grouping {
	by.Status, by.Limit = cmp.Or(by.Status, Failed), 0
	g := &Grouping{by: by, queues: texts.Map(queues, Of), after: make([]string, len(queues))}
	g.groups = texts.Map(queues, func(*queue.Queue) grouping { return newGrouping(by) })
	return g
}

// GoOn groups more jobs for a time, and says whether all are grouped. It may be repeated after an error.
func (g *Grouping) GoOn(ctx context.Context, within time.Duration) (done bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	by := g.by
	by.Limit = countPage
	for deadline := time.Now().Add(within); g.at < len(g.queues); {
		q := g.queues[g.at]
		o := PageOptions{After: g.after[g.at], Within: max(time.Until(deadline), time.Millisecond)}
		next, _, err := q.eachUntil(ctx, by, o, failureColumns, func(j *job.Job) bool {
			g.groups[g.at].add(j)
			g.jobs++
			return true
		})
		if err != nil {
			return false, texts.Wrap(err, "group the failures of %s", q.s.Name)
		}
		if g.after[g.at] = next; next == "" {
			g.at++
		} else if time.Now().After(deadline) {
			return false, nil
		}
	}
	return true, nil
}

// Failures returns what is grouped of each queue.
func (g *Grouping) Failures() (all []Failures) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n, of := range g.groups {
		all = append(all, of.sorted(n >= g.at))
	}
	return all
}

// Causes returns what is grouped, the largest first, and of how many jobs. Unless done, there are more.
func (g *Grouping) Causes() (causes []Cause, jobs int64, done bool) {
	at := map[string]int{}
	for n, found := range g.Failures() {
		for _, f := range found.Kinds {
			name := g.queues[n].s.Name
			shape := texts.Fingerprint(nameless(f.Error, name, f.Type))
			i, known := at[shape]
			if !known {
				i, at[shape] = len(causes), len(causes)
				causes = append(causes, Cause{Error: f.Error, First: f.First, Last: f.Last, Hours: map[time.Time]int64{}})
			}
			c := &causes[i]
			if f.Last.After(c.Last.Time) {
				c.Error, c.Last = f.Error, f.Last
			}
			if f.First.Before(c.First.Time) {
				c.First = f.First
			}
			for hour, n := range f.Hours {
				c.Hours[hour] += n
			}
			c.Jobs, c.Kinds = c.Jobs+f.Jobs, append(c.Kinds, Kind{name, f})
		}
	}
	for _, c := range causes {
		slices.SortStableFunc(c.Kinds, func(a, b Kind) int { return cmp.Compare(b.Jobs, a.Jobs) })
	}
	slices.SortStableFunc(causes, func(a, b Cause) int { return cmp.Compare(b.Jobs, a.Jobs) })
	g.mu.Lock()
	defer g.mu.Unlock()
	return causes, g.jobs, g.at == len(g.queues)
}

// nameless is an error without the names of its queue and type of three letters or more.
func nameless(text string, names ...string) string {
	for _, name := range names {
		if len(name) > 2 {
			text = strings.ReplaceAll(text, name, "#")
		}
	}
	return text
}
