package queue

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// shown are the columns that are selected to show jobs to people: with their progress, which a worker has no use for.
func (q *Queue) shown() string {
	return q.selected() + ", progress, progress_note, progress_attempt, " + q.db.TimeColumn("progress_time")
}

// shownScanner reads rows with the columns of shown. What can't be a progress is none: it's no reason to end a job.
func (q *Queue) shownScanner() func(row interface{ Scan(dest ...any) error }) (*job.Job, error) {
	var percent float64
	var note string
	var attempt int
	var at sql.NullString
	s := q.scanner(&percent, &note, &attempt, &at)
	return func(row interface{ Scan(dest ...any) error }) (*job.Job, error) {
		j, err := s.scan(row)
		if err != nil {
			return nil, err
		}
		p, ok := job.NewProgress(percent, note)
		p.Attempt = attempt
		if p.Time, err = engine.ParseTime(at.String); ok && err == nil && attempt > 0 {
			j.Progress = p
		}
		return j, nil
	}
}

// Progressing are those of the queue's jobs which a worker runs and whose attempts have said how far they are, at most so many:
// those that have said so last, the latest first.
func (q *Queue) Progressing(ctx context.Context, most int) (jobs []*job.Job, err error) {
	// of all that run: they are no more than there are slots
	query := "SELECT " + q.shown() + " FROM " + q.table + " " + q.claimIndex() +
		" WHERE status = 'running' AND progress_attempt = attempt ORDER BY " + q.table + ".progress_time DESC, id LIMIT ?"
	scan := q.shownScanner()
	err = q.db.Read(ctx, engine.Query{SQL: query, Args: []any{most}, Scan: engine.EachRow(func(row *sql.Rows) error {
		j, err := scan(row)
		if err == nil && j.Progress.Attempt > 0 {
			jobs = append(jobs, j)
		}
		return err
	})})
	if err != nil {
		return nil, fmt.Errorf("read the progress of jobs of %s: %w", q.Name, err)
	}
	return jobs, nil
}
