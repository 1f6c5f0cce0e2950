package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/schema"
)

// Why is what there is to know about a job that isn't running, or is.
type Why struct {
	Job *Job
	// Now is the database's clock, at which all else holds.
	Now time.Time
	// Paused: nothing of the queue is started.
	Paused bool
	// Used is what counts against the throttle limit.
	Used int
	// Ahead is how many due jobs of the queue come before it, of whatever type.
	Ahead int64
	// Handled says whether the config that asks has a handler for the job's type.
	Handled bool
	// Worker is the worker that has it, if one does; Last is the one that started last, if any has.
	Worker, Last *WorkerRow
	limit        int
	location     *time.Location
}

// Why finds out why a job isn't running. handled are the types for which the asking config has a handler.
func (q *Queue) Why(ctx context.Context, id int64, handled []string) (Why, error) {
	job, err := q.Get(ctx, id)
	if err != nil {
		return Why{}, err
	}
	w := Why{Job: job, limit: q.ThrottleLimit, location: q.Location}
	for _, t := range handled {
		w.Handled = w.Handled || t == job.Type
	}
	if w.Now, err = q.db.Clock(ctx); err != nil {
		return w, err
	}
	if w.Paused, err = q.Paused(ctx); err != nil {
		return w, err
	}
	if w.Used, err = q.used(ctx, q.db); err != nil {
		return w, err
	}
	if job.Line == lineDue {
		query := "SELECT COUNT(*) FROM " + q.table + " " + q.index("pick") + " WHERE line = 'due' AND" +
			" (priority < ? OR (priority = ? AND scheduled_run_time < ?) OR (priority = ? AND scheduled_run_time = ? AND id < ?))"
		at := schema.At(job.ScheduledRunTime)
		if err := q.db.GetContext(ctx, &w.Ahead, query, job.Priority, job.Priority, at, job.Priority, at, job.ID); err != nil {
			return w, fmt.Errorf("count the jobs before job %d: %w", id, err)
		}
	}
	if w.Worker, err = workerRow(ctx, q.db, " WHERE id = ?", job.WorkerID); err != nil {
		return w, err
	}
	w.Last, err = LastWorker(ctx, q.db)
	return w, err
}

// Reasons are the answers to why the job isn't running, the most telling first; for one that runs, or is over, that.
func (w Why) Reasons() []string {
	job := w.Job
	switch job.Line {
	case lineFinished:
		return []string{"it is final since " + w.local(job.UpdateTime)}
	case lineFailed:
		return []string{"it is final since " + w.local(job.UpdateTime) + ", with the error: " + job.Error}
	case lineError:
		return w.orNoHandler("attempt %d failed (%s); the next worker that has a handler for %s decides whether it is tried again",
			job.Attempt, job.Error, job.Type)
	case lineLocked:
		return []string{w.locked()}
	case lineNew:
		return append([]string{"it was inserted by plain SQL, and the next worker takes it in"}, w.nobody()...)
	case lineLater:
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
			w.Now.Sub(w.Last.Heartbeat.Time).Round(time.Second), w.Last.PID, w.Last.Host)}
	}
	return nil
}

func (w Why) later() string {
	at := w.local(w.Job.ScheduledRunTime)
	switch {
	case !w.Job.ScheduledRunTime.After(w.Now):
		return "it has been due since " + at + ", and the next worker puts it into the line"
	case w.Job.State == Retry:
		return fmt.Sprintf("attempt %d failed (%s); the next is due at %s", w.Job.Attempt, w.Job.Error, at)
	case len(w.Job.Windows) > 0 && !w.Job.Windows.Contains(w.Now.In(w.location)):
		return fmt.Sprintf("it is not due until %s; its windows are %v, and closed now", at, w.Job.Windows.Strings())
	}
	return "it is not due until " + at
}

func (w Why) locked() string {
	who := "worker " + w.Job.WorkerID + ", which is not known any more"
	if w.Worker != nil {
		who = fmt.Sprintf("worker %s (pid %d on %s), whose lock lasts until %s", w.Worker.ID, w.Worker.PID, w.Worker.Host, w.local(w.Worker.LockUntil.Time))
		if w.Worker.State != "working" || !w.Worker.LockUntil.After(w.Now) {
			who += " and is over: the next worker takes the job back"
		}
	}
	if w.Job.State == Running {
		return fmt.Sprintf("attempt %d is running since %s, at most until %s, by %s", w.Job.Attempt, w.local(w.Job.StartTime),
			w.local(w.Job.StartTime.Add(w.Job.Timeout)), who)
	}
	return "it is locked, to start when a slot is free, by " + who
}

// due gives all that stands in the way of a job in the line.
func (w Why) due() []string {
	var reasons []string
	if w.Paused {
		reasons = append(reasons, "the queue is paused: hipq queue resume "+w.Job.Queue)
	}
	if !w.Handled {
		reasons = append(reasons, "this config has no handler for job type "+w.Job.Type)
	}
	if opening := w.Job.Windows.Next(w.Now.In(w.location)); opening.After(w.Now) {
		reasons = append(reasons, "its window opens at "+w.local(opening))
	}
	if f := w.Job.ThrottleFactor; w.limit > 0 && f > 0 && w.Used > 0 && w.Used+f > w.limit {
		reasons = append(reasons, fmt.Sprintf("throttled: %d of %d are taken, and its factor is %d", w.Used, w.limit, f))
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

func (w Why) local(t time.Time) string { return t.In(w.location).Format("2006-01-02 15:04:05") }
