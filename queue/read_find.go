package queue

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// Standing is where a job stands: one of job.States, or of what Counts counts.
type Standing string

// The standings that are no states.
const (
	Due       Standing = "due"
	Held      Standing = "held"
	Scheduled Standing = "scheduled"
	Locked    Standing = "locked"
	Waiting   Standing = "waiting"
	Failed    Standing = "failed"
	Closed    Standing = "closed"
	Finished  Standing = "finished"
)

// Standings are all there are. Running and error are the states: with those that wait for an answer, and those about which
// a retry handler is asked.
var Standings = []Standing{
	Standing(job.Initial), Standing(job.Running), Standing(job.Error), Standing(job.Retry), Standing(job.Final),
	Due, Held, Scheduled, Locked, Waiting, Failed, Closed, Finished,
}

// condition is what the rows of a standing meet, for each by the statuses, which the index has.
func (q *Queue) condition(s Standing) (condition string, args []any) {
	now := "(SELECT " + q.db.Now + ")"
	switch s {
	case Standing(job.Initial), Standing(job.Retry):
		return "status IN ('submitted', 'available', 'scheduled', 'throttled', 'locked') AND state = ?", []any{string(s)}
	case Standing(job.Running):
		return "status IN ('running', 'awaiting')", nil
	case Standing(job.Error):
		return "status IN ('answered', 'deciding', 'undecided')", nil
	case Standing(job.Final):
		return "status IN ('finished', 'failed', 'closed') AND part = 'NONE'", nil
	case Due:
		return "status IN ('submitted', 'available', 'scheduled') AND (status = 'available' OR scheduled_run_time <= " + now + ")", nil
	case Scheduled:
		return "status IN ('submitted', 'scheduled') AND scheduled_run_time > " + now, nil
	case Locked:
		return "status = 'locked'", nil
	case Held:
		return "status = 'throttled'", nil
	case Waiting:
		return "status = 'awaiting'", nil
	}
	return "status = ? AND part = 'NONE'", []any{string(s)} // the others are statuses
}

// Filter narrows what Find gives. A zero field doesn't narrow.
type Filter struct {
	Standing Standing
	Type     string
	Key      string
	// Error takes only jobs whose error contains this text, as it is written.
	Error string
	// Fingerprint takes only jobs whose error has this fingerprint, as Failures gives it.
	Fingerprint string
	// Place takes only jobs of one shard, by Division.Place.
	Place int
	// Since and Until take only jobs that have become what they are since, and before: by their update_time.
	Since, Until time.Time
	// Among looks at the newest so many jobs of the queue only, by their ids: what it costs is the same in a queue of any length.
	Among int
	// Limit takes the newest so many.
	Limit int
}

// where is the condition of a filter but for its fingerprint, which no engine knows, and the hint for the index that serves it,
// if one does.
func (q *Queue) where(by Filter) (where, hint string, args []any) {
	var w engine.Where
	switch {
	case by.Standing != "":
		condition, its := q.condition(by.Standing)
		w.And(condition, its...)
		hint = q.claimIndex()
	case by.Error != "" || by.Fingerprint != "":
		// where an error can be: not in the statuses that most jobs have
		w.And("status IN ('available', 'scheduled', 'throttled', 'locked', 'running', 'answered', 'deciding', 'undecided', 'failed', 'closed')")
		hint = q.claimIndex()
	}
	if by.Place != 0 {
		w.And("shard = ?", by.Place)
	}
	if by.Type != "" {
		w.And("job_type = ?", by.Type)
	}
	if by.Key != "" {
		w.And("job_key = ?", by.Key)
	}
	if by.Type != "" && by.Key != "" {
		hint = q.index("live")
	}
	w.Says(by.Error)
	w.Within("update_time", by.Since, by.Until)
	if by.Among > 0 {
		w.And("id >= (SELECT MIN(id) FROM (SELECT id FROM "+q.table+" ORDER BY id DESC LIMIT ?) AS newest)", by.Among)
		hint = q.db.ByID
	}
	return w.SQL(), hint, w.Args
}

// LiveID is the id of the job that has a type and a key and is not final; 0 if there is none.
func (q *Queue) LiveID(ctx context.Context, jobType, key string) (int64, error) {
	var ids []int64
	err := q.db.SelectContext(ctx, &ids, "SELECT id FROM "+q.table+" "+q.index("live")+" WHERE live = 1 AND job_type = ? AND job_key = ?", jobType, key)
	if err != nil {
		return 0, fmt.Errorf("find the live job of %s: %w", q.Name, err)
	}
	return slices.Max(append(ids, 0)), nil
}

// FindIDs gives the ids of the jobs that the filter lets pass, in order.
func (q *Queue) FindIDs(ctx context.Context, by Filter) (ids []int64, err error) {
	if by.Fingerprint != "" {
		return q.findByFingerprint(ctx, by)
	}
	return q.findIDs(ctx, by)
}

// findIDs is FindIDs, whatever the filter's fingerprint.
func (q *Queue) findIDs(ctx context.Context, by Filter) (ids []int64, err error) {
	where, hint, args := q.where(by)
	query := "SELECT id FROM " + q.table + " " + hint + where + " ORDER BY id"
	if by.Limit > 0 {
		query, args = query+" DESC LIMIT ?", append(args, by.Limit)
	}
	if err := q.db.SelectContext(ctx, &ids, query, args...); err != nil {
		return nil, fmt.Errorf("find jobs of %s: %w", q.Name, err)
	}
	if by.Limit > 0 {
		slices.Reverse(ids)
	}
	return ids, nil
}

// served says whether an index has all that the filter asks for, so that no row is read which it doesn't let pass.
func (by Filter) served() bool {
	switch {
	case by.Type != "" && by.Key != "":
		return true // one job, and those that were like it
	case by.Key != "", by.Error != "", !by.Since.IsZero(), !by.Until.IsZero(), by.Place != 0 && by.Standing == "":
		return false
	case by.Standing == Standing(job.Initial), by.Standing == Standing(job.Retry):
		return false // the index has their lines, which they share
	}
	return by.Standing != "" || by.Type == ""
}

// CountFound counts the jobs that the filter lets pass, whatever its Limit: up to 10,000, and if no index has all that the
// filter asks for among the newest 100,000 of the queue. all says that there are no others.
func (q *Queue) CountFound(ctx context.Context, by Filter) (n int, all bool, err error) {
	if by.Fingerprint != "" {
		by.Limit = engine.CountedMost + 1
		ids, err := q.FindIDs(ctx, by)
		return min(len(ids), engine.CountedMost), len(ids) <= engine.CountedMost, err
	}
	where, hint, args := q.where(by)
	some := engine.Some{Table: q.table, Hint: hint, Where: where, Args: args, Served: by.served()}
	if n, all, err = q.db.CountSome(ctx, some); err != nil {
		return 0, false, fmt.Errorf("count jobs of %s: %w", q.Name, err)
	}
	return n, all, nil
}

// Find calls f with each job that the filter lets pass, oldest first, and ends with f's first error.
func (q *Queue) Find(ctx context.Context, by Filter, f func(*job.Job) error) error {
	where, hint, args := q.where(by)
	if hint == "" && by.Fingerprint == "" {
		query := "SELECT " + q.shown() + " FROM " + q.table + where
		if by.Limit > 0 {
			query, args = "SELECT * FROM ("+query+" ORDER BY id DESC LIMIT ?) AS newest", append(args, by.Limit)
		}
		return q.each(ctx, query+" ORDER BY id", args, f)
	}
	// the ids first, for in the order of the index whole rows would have to be sorted, with all of their data
	ids, err := q.FindIDs(ctx, by)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(ids, 500) {
		all := slices.Clone(args) // what has become another meanwhile is left out
		for _, id := range batch {
			all = append(all, id)
		}
		query := "SELECT " + q.shown() + " FROM " + q.table + " " + q.db.ByID + where + " AND id IN " + engine.In(len(batch)) + " ORDER BY id"
		if err := q.each(ctx, query, all, f); err != nil {
			return err
		}
	}
	return nil
}

// each calls f with the job of each row.
func (q *Queue) each(ctx context.Context, query string, args []any, f func(*job.Job) error) error {
	s := q.shownScanner()
	var stop error
	err := engine.ReadOn(ctx, q.db, engine.Query{SQL: query, Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		j, err := s.scan(row)
		if err == nil {
			stop = f(j)
		}
		return cmp.Or(stop, err)
	})})
	if err != nil && stop == nil {
		return fmt.Errorf("find jobs of %s: %w", q.Name, err)
	}
	return stop
}
