package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/roster"
)

// Why is what there is to know about a job that isn't running, or is.
type Why struct {
	Job *job.Job
	// Now is the database's clock, at which all else holds.
	Now time.Time
	// Paused: nothing of the queue is started.
	Paused bool
	// Used is what counts against the throttle limit, GroupUsed against that of the job's throttle group, Group.
	Used, GroupUsed int
	Group           string
	// Rate is how long the queue's rate lets no job start; 0 if it does.
	Rate time.Duration
	// Ahead is how many due jobs of the queue come before it, of whatever type.
	Ahead int64
	// Lanes tells where the concurrency of the queue's or the job type's own is used up.
	Lanes []string
	// Handled says whether the config that asks has a handler for the job's type.
	Handled bool
	// Worker is the worker that has it, if one does; Last is the one that started last, if any has.
	Worker, Last *roster.Row
	Options      Options
}

// Why finds out why a job isn't running. handled are the types for which the asking config has a handler.
func (q *Queue) Why(ctx context.Context, id int64, handled []string) (Why, error) {
	j, err := q.Get(ctx, id)
	if err != nil {
		return Why{}, err
	}
	w := Why{Job: j, Options: q.Options}
	for _, t := range handled {
		w.Handled = w.Handled || t == j.Type
	}
	if w.Now, err = q.db.Clock(ctx); err != nil {
		return w, err
	}
	if w.Paused, err = q.Paused(ctx); err != nil {
		return w, err
	}
	used, byGroup, err := q.used(ctx, q.db)
	if err != nil {
		return w, err
	}
	if w.Group = j.Group; j.Line == job.LineDue && q.ThrottleGroups != nil && !q.ThrottleGroups.Knows(w.Group) {
		w.Group = q.ThrottleGroups.Of(j.Type, []byte(j.Data)) // no round has found it out yet
	}
	w.Used, w.GroupUsed = used, byGroup[w.Group]
	if q.Rate.Starts > 0 {
		lately, err := q.startsLately(ctx, w.Now)
		if err != nil {
			return w, err
		}
		_, w.Rate = q.Rate.Left(lately, w.Now)
	}
	if j.Line == job.LineDue {
		if w.Ahead, err = q.ahead(ctx, j); err != nil {
			return w, err
		}
		if w.Lanes, err = q.fullLanes(ctx, j.Type); err != nil {
			return w, err
		}
	}
	if w.Worker, err = q.workers.Get(ctx, j.WorkerID); err != nil {
		return w, err
	}
	w.Last, err = q.workers.Last(ctx)
	return w, err
}

// ahead counts the due jobs that come before one.
func (q *Queue) ahead(ctx context.Context, j *job.Job) (n int64, err error) {
	c := candidate{ID: j.ID}
	err = q.db.QueryRowContext(ctx, "SELECT run_rank, scheduled_run_time FROM "+q.table+" WHERE id = ?", j.ID).Scan(&c.Rank, &c.At)
	if err == nil {
		err = q.db.GetContext(ctx, &n, "SELECT COUNT(*) FROM "+q.table+" "+q.pick()+" WHERE line = 'due' AND "+before, c.args()...)
	}
	if err != nil {
		return 0, fmt.Errorf("count the jobs before job %d: %w", j.ID, err)
	}
	return n, nil
}

// startsLately reads the starts that count against the queue's rate.
func (q *Queue) startsLately(ctx context.Context, now time.Time) (job.Starts, error) {
	var starts any
	if err := q.db.QueryRowxContext(ctx, "SELECT "+startsColumn.list+" FROM "+q.db.Queues()+" WHERE queue = ?", q.Name).Scan(&starts); err != nil {
		return nil, fmt.Errorf("read the latest starts of %s: %w", q.Name, err)
	}
	lately, _ := q.decodeStarts(starts, now)
	return lately, nil
}

// Reasons are the answers to why the job isn't running, the most telling first; for one that runs, or is over, that.
func (w Why) Reasons() []string {
	j := w.Job
	if j.Flaw != nil && j.State != job.Final {
		return append([]string{"its row can't be a job's, and the next worker that comes to it ends it: " + j.Flaw.Error()}, w.nobody()...)
	}
	switch j.Line {
	case job.LineFinished:
		return []string{"it is final since " + w.local(j.UpdateTime)}
	case job.LineFailed, job.LineClosed:
		reasons := []string{"it is final since " + w.local(j.UpdateTime) + ", with the error: " + j.Error}
		switch {
		case j.RetriedAs != 0:
			reasons = append(reasons, fmt.Sprintf("it was retried, as job %d", j.RetriedAs))
		case j.IsDismissed():
			reasons = append(reasons, "it was dismissed")
		}
		return reasons
	case job.LineError:
		return w.orNoHandler("attempt %d failed (%s); the next worker that has a handler for %s decides whether it is tried again",
			j.Attempt, j.Error, j.Type)
	case job.LineLocked:
		return w.locked()
	case job.LineWaiting:
		return []string{fmt.Sprintf("attempt %d is waiting for an answer since %s, at most until %s: hipq complete %s %s %s, or hipq fail",
			j.Attempt, w.local(j.StartTime), w.local(j.StartTime.Add(j.Timeout)), j.Queue, shellWord(j.Type), shellWord(j.Key))}
	case job.LineNew:
		return append([]string{"it was inserted by plain SQL, and the next worker takes it in"}, w.nobody()...)
	case job.LineHeld:
		return w.held()
	case job.LineLater:
		return append([]string{w.later()}, w.nobody()...)
	}
	return w.due()
}

// nobody says whether it looks as if no worker ran at all.
func (w Why) nobody() []string {
	const long = 5 * time.Minute
	switch {
	case w.Last == nil:
		return []string{"no worker has run yet: is hipq work in crontab?"}
	case w.Now.Sub(w.Last.Heartbeat.Time) > long:
		return []string{fmt.Sprintf("no worker has run for %s (the last: pid %d on %s): is hipq work in crontab?",
			brief(w.Now.Sub(w.Last.Heartbeat.Time)), w.Last.PID, w.Last.Host)}
	}
	return nil
}

func (w Why) later() string {
	at := w.local(w.Job.ScheduledRunTime)
	switch {
	case !w.Job.ScheduledRunTime.After(w.Now):
		return "it has been due since " + at + ", and the next worker sees to it"
	case w.Job.State == job.Retry:
		return fmt.Sprintf("attempt %d failed (%s); the next is due at %s", w.Job.Attempt, w.Job.Error, at)
	case len(w.Job.Windows) > 0 && !w.Job.Windows.Contains(w.Now.In(w.Options.Location)):
		return fmt.Sprintf("it is not due until %s; its windows are %s, and closed now", at, strings.Join(w.Job.Windows.Strings(), ", "))
	}
	return "it is not due until " + at
}

func (w Why) locked() []string {
	who, until := "worker "+w.Job.WorkerID+", which is not known any more", ""
	if w.Worker != nil {
		who = fmt.Sprintf("worker %s (pid %d on %s), ", w.Worker.ID, w.Worker.PID, w.Worker.Host)
		switch dead, silent := w.Worker.Silent(w.Now); {
		case w.Worker.State != "working" || silent && dead == 0:
			who += fmt.Sprintf("whose lock lasted until %s and is over: the next worker takes the job back", w.local(w.Worker.LockUntil.Time))
		case silent:
			who += fmt.Sprintf("of which nothing was heard for %s: unless it comes back it is declared dead in %s, and the next worker takes the job back",
				brief(w.Now.Sub(w.Worker.Heartbeat.Time)), brief(dead))
		default:
			who += "whose lock lasts until " + w.local(w.Worker.LockUntil.Time)
			until = ", at most until " + w.local(w.Job.StartTime.Add(w.Job.Timeout)) // of one that is lost the timeout says nothing
		}
	}
	var reasons []string
	switch w.Job.State {
	case job.Running:
		reasons = []string{fmt.Sprintf("attempt %d is running since %s%s, by %s", w.Job.Attempt, w.local(w.Job.StartTime), until, who)}
	case job.Error:
		reasons = []string{fmt.Sprintf("attempt %d failed (%s); a retry handler decides whether it is tried again, run by %s",
			w.Job.Attempt, w.Job.Error, who)}
	default:
		return []string{"it is locked, to start when a slot is free, by " + who}
	}
	if w.Job.Stopping {
		reasons = append(reasons, "it was cancelled, and its worker is asked to stop it")
	}
	return reasons
}

// held gives what stands in the way of a job whose throttle group was full.
func (w Why) held() []string {
	var reasons []string
	if w.Paused {
		reasons = append(reasons, "the queue is paused: hipq queue resume "+w.Job.Queue)
	}
	if !w.Handled {
		reasons = append(reasons, "this config has no handler for job type "+w.Job.Type)
	}
	switch full, limit := w.groupFull(), w.groupLimit(); {
	case limit == 0:
		reasons = append(reasons, "its throttle group was full, and has no limit any more: the next worker starts it")
	case full != "":
		reasons = append(reasons, full)
	default:
		reasons = append(reasons, fmt.Sprintf("its throttle group %s was full; %d of %d are taken now, and the next worker starts the first of the group",
			w.Group, w.GroupUsed, limit))
	}
	return append(reasons, w.nobody()...)
}

// groupLimit is that of the job's throttle group; 0 is none.
func (w Why) groupLimit() int {
	if w.Options.ThrottleGroups == nil {
		return 0
	}
	return w.Options.ThrottleGroups.Limit(w.Group)
}

// groupFull says that the job's throttle group has no room for it; empty if it has.
func (w Why) groupFull() string {
	limit, factor := w.groupLimit(), w.Job.ThrottleFactor
	if limit == 0 || factor == 0 || job.Allows(limit, w.GroupUsed, factor) {
		return ""
	}
	return fmt.Sprintf("throttled: of group %s %d of %d are taken, and its factor is %d", w.Group, w.GroupUsed, limit, factor)
}

// due gives all that stands in the way of a job that is due.
func (w Why) due() []string {
	var reasons []string
	if w.Paused {
		reasons = append(reasons, "the queue is paused: hipq queue resume "+w.Job.Queue)
	}
	if !w.Handled {
		reasons = append(reasons, "this config has no handler for job type "+w.Job.Type)
	}
	if opening := w.Job.Windows.Next(w.Now.In(w.Options.Location)); opening.After(w.Now) {
		reasons = append(reasons, "its window opens at "+w.local(opening))
	}
	if f, limit := w.Job.ThrottleFactor, w.Options.ThrottleLimit; limit > 0 && f > 0 && !job.Allows(limit, w.Used, f) {
		reasons = append(reasons, fmt.Sprintf("throttled: %d of %d are taken, and its factor is %d", w.Used, limit, f))
	}
	if full := w.groupFull(); full != "" {
		reasons = append(reasons, full)
	}
	if w.Rate > 0 {
		reasons = append(reasons, fmt.Sprintf("the queue's rate of %d starts per %s is used up for %s", w.Options.Rate.Starts,
			job.Brief(w.Options.Rate.Per), w.Rate.Round(time.Millisecond)))
	}
	reasons = append(reasons, w.Lanes...)
	if w.Job.Suspect {
		reasons = append(reasons, "its last attempt ended with its worker, so it runs alone: a worker takes it that runs nothing else")
	}
	reasons = append(reasons, w.nobody()...)
	if w.Ahead > 0 {
		reasons = append(reasons, fmt.Sprintf("%d due jobs are before it", w.Ahead))
	}
	if len(reasons) == 0 {
		reasons = []string{"nothing stands in its way: the next worker with a free slot takes it"}
	}
	return reasons
}

func (w Why) orNoHandler(format string, args ...any) []string {
	reasons := []string{fmt.Sprintf(format, args...)}
	if !w.Handled {
		reasons = append(reasons, "this config has no handler for job type "+w.Job.Type)
	}
	return append(reasons, w.nobody()...)
}

func (w Why) local(t time.Time) string {
	return t.In(w.Options.Location).Format("2006-01-02 15:04:05 MST")
}

// brief is a time of some seconds and more for people.
func brief(d time.Duration) string { return d.Round(time.Second).String() }

// shellWord is a text as a shell takes it for one word.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// fullLanes tells on which hosts live workers hold all slots of a lane that jobs of a type are in.
func (q *Queue) fullLanes(ctx context.Context, jobType string) ([]string, error) {
	limits := map[string]int{roster.Lane(q.Name, ""): q.Concurrency, roster.Lane(q.Name, jobType): q.configured[jobType].Concurrency}
	maps.DeleteFunc(limits, func(_ string, limit int) bool { return limit < 1 })
	if len(limits) == 0 {
		return nil, nil
	}
	rows, err := q.workers.LiveSlots(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[[2]string]int{}
	for _, r := range rows {
		for lane, n := range r.ByLane() {
			taken[[2]string{r.Host, lane}] += n
		}
	}
	var full []string
	for at, n := range taken {
		if limit := limits[at[1]]; limit > 0 && n >= limit {
			full = append(full, fmt.Sprintf("on %s, the concurrency %d of %s is used up", at[0], limit, at[1]))
		}
	}
	slices.Sort(full)
	return full, nil
}
