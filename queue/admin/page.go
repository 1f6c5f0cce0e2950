package admin

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// Tally is how many jobs a queue has by status, each up to a limit.
type Tally map[Status]int64

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

// Tally counts the jobs of each status up to most, so that its cost doesn't depend on the queue's length.
func (q *Queue) Tally(ctx context.Context, most int) (Tally, error) {
	var parts []string
	var args []any
	for _, t := range tallied {
		hint := q.s.ClaimIndex()
		if t.index != "" {
			hint = q.s.Index(t.index)
		}
		where := strings.ReplaceAll(t.where, "{now}", "(SELECT "+q.s.DB().SQL.NowSQL+")")
		parts = append(parts, "SELECT ? AS status, COUNT(*) AS n FROM (SELECT 1 FROM "+q.s.Table()+" "+hint+" WHERE "+where+" LIMIT ?) AS some")
		args = append(args, string(t.status), most)
	}
	t := Tally{}
	err := q.s.DB().SQL.Read(ctx, engine.Query{SQL: strings.Join(parts, " UNION ALL "), Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		var status string
		var n int64
		err := row.Scan(&status, &n)
		t[Status(status)] = min(t[Status(status)]+n, int64(most))
		return err
	})})
	return t, texts.Wrap(err, "count the jobs of %s", q.s.Name)
}

// pageSteps are how many IDs one query of Page looks at: few at first, because the newest jobs mostly have what is asked for.
const pageSteps, pageStepsMost = 1000, 32_000

// rare is how many jobs of a status can be sorted at once.
const rare = 10_000

// listColumns are what a list of jobs shows.
var listColumns = store.Only("id", "job_type", "job_key", "status", "attempt", "error", "scheduled_run_time", "start_time", "update_time", "priority",
	"retried_as", "create_time", "progress", "progress_note", "progress_attempt", "progress_time", "losses", "shard", "worker_id")

// Page returns the newest of the selected jobs, newest first, up to by.Limit, with IDs below before if that isn't 0. They
// lack data, result and output. It stops after the time within. next is where the next page begins, 0 if there is none.
func (q *Queue) Page(ctx context.Context, by Filter, before int64, within time.Duration) (jobs []*job.Job, next int64, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	ids, next, err := q.pageIDs(ctx, by, before, time.Now().Add(within))
	if err != nil || len(ids) == 0 {
		return nil, next, err
	}
	err = q.each(ctx, by, ids, listColumns, func(j *job.Job) error {
		jobs = append(jobs, j)
		return nil
	})
	return jobs, next, err
}

func (q *Queue) pageIDs(ctx context.Context, by Filter, before int64, deadline time.Time) (ids []int64, next int64, err error) {
	w, hint := q.where(by)
	few, err := q.isRare(ctx, by)
	if err != nil {
		return nil, 0, err
	}
	if few {
		w.And("id < ?", before)
		query := "SELECT id FROM " + q.s.Table() + " " + hint + w.SQL() + " ORDER BY id DESC LIMIT ?"
		err = q.s.DB().SQL.SelectContext(ctx, &ids, query, append(w.Args, by.Limit+1)...)
		if len(ids) > by.Limit {
			ids = ids[:by.Limit]
			next = ids[by.Limit-1]
		}
		return ids, next, texts.Wrap(err, "list jobs of %s", q.s.Name)
	}
	var newest int64
	if err := q.s.DB().SQL.GetContext(ctx, &newest, "SELECT COALESCE(MAX(id), 0) FROM "+q.s.Table()+" WHERE id < ?", before); err != nil {
		return nil, 0, texts.Wrap(err, "list jobs of %s", q.s.Name)
	}
	for step, high := int64(pageSteps), newest; high > 0; step = min(2*step, pageStepsMost) {
		w, _ := q.where(by)
		w.And("id > ?", high-step)
		w.And("id <= ?", high)
		var some []int64
		query := "SELECT id FROM " + q.s.Table() + " " + q.s.DB().SQL.ByID + w.SQL() + " ORDER BY id DESC LIMIT ?"
		if err := q.s.DB().SQL.SelectContext(ctx, &some, query, append(w.Args, by.Limit-len(ids))...); err != nil {
			return nil, 0, texts.Wrap(err, "list jobs of %s", q.s.Name)
		}
		ids, high = append(ids, some...), high-step
		switch {
		case len(ids) == by.Limit:
			return ids, ids[len(ids)-1], nil
		case high > 0 && time.Now().After(deadline):
			return ids, high + 1, nil
		}
	}
	return ids, 0, nil
}

// isRare reports whether an index finds all selected jobs, and they are few.
func (q *Queue) isRare(ctx context.Context, by Filter) (bool, error) {
	if by.Type != "" && by.Key != "" {
		return true, nil
	}
	if by.Status == "" {
		return false, nil
	}
	t, err := q.Tally(ctx, rare)
	few := t[by.Status]
	switch by.Status {
	case Due, Scheduled: // its condition reads the other's range too
		few = t[Due] + t[Scheduled]
	case Initial, Retry:
		few = t[Due] + t[Scheduled] + t[Held] + t[Locked]
	case Final:
		few = t[Failed] + t[Closed] + t[Finished]
	}
	return few < rare, err
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

// Enqueue adds a job, as the application's queue does, and notes who did it.
func (q *Queue) Enqueue(ctx context.Context, j job.Params) (added job.Added, err error) {
	j, err = j.WithKey() // so that a repeated transaction finds its job
	if err != nil {
		return added, err
	}
	err = q.s.DB().SQL.Tx(ctx, func(tx *engine.Tx) error {
		prepared, err := q.s.Prepare([]job.Params{j})
		if err != nil {
			return err
		}
		list, err := q.s.Add(ctx, tx, prepared, false, q.note())
		if err == nil {
			added = list[0]
			added.Duplicate = added.Duplicate && !tx.MayBeDone
		}
		return err
	})
	return added, texts.Wrap(err, "enqueue in %s", q.s.Name)
}
