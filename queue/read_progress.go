package queue

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// shown is selected for who shows jobs to people: with their progress, which a worker has no use for.
func (q *Queue) shown() string {
	return q.selected() + ", progress, progress_note, progress_attempt, " + q.db.TimeColumn("progress_time")
}

// shownScanner reads rows with the columns of shown.
type shownScanner struct {
	*scanner
	percent, note, attempt, at cell
}

func (q *Queue) shownScanner() *shownScanner {
	s := &shownScanner{}
	s.scanner = q.scanner(&s.percent, &s.note, &s.attempt, &s.at)
	return s
}

func (s *shownScanner) scan(rows interface{ Scan(dest ...any) error }) (*job.Job, error) {
	j, err := s.scanner.scan(rows)
	if err == nil {
		j.Progress = readProgress(s.percent, s.note, s.attempt, s.at)
	}
	return j, err
}

// readProgress reads the columns of a progress. What can't be one is none: it's no reason to end a job.
func readProgress(percent, note, attempt, at cell) job.Progress {
	n, err := percent.asNumber()
	p, ok := job.NewProgress(float64(n), note.asText())
	said, err2 := attempt.asNumber()
	t, err3 := engine.ParseTime(at.asText())
	if err != nil || err2 != nil || err3 != nil || !ok || said < 1 {
		return job.Progress{}
	}
	p.Attempt, p.Time = int(said), t
	return p
}

// Progressing are those of the queue's jobs which a worker runs and whose attempts have said how far they are, at most so many:
// those that have said so last, the latest first. They have no more than their ID, Type, Attempt and Progress.
func (q *Queue) Progressing(ctx context.Context, most int) (jobs []*job.Job, err error) {
	// of all locked rows, as Counts does: they are no more than there are slots
	query := "SELECT id, job_type, attempt, progress, progress_note, progress_attempt, " + q.db.TimeColumn("progress_time") +
		" FROM " + q.table + " " + q.claimIndex() + " WHERE status = 'running' AND progress_attempt = attempt" +
		" ORDER BY " + q.table + ".progress_time DESC, id LIMIT ?"
	err = q.db.Read(ctx, engine.Query{SQL: query, Args: []any{most}, Scan: engine.EachRow(func(row *sql.Rows) error {
		j := &job.Job{Queue: q.Name}
		var percent, note, attempt, at cell
		err := row.Scan(&j.ID, &j.Type, &j.Attempt, &percent, &note, &attempt, &at)
		if j.Progress = readProgress(percent, note, attempt, at); j.Progress.Attempt > 0 {
			jobs = append(jobs, j)
		}
		return err
	})})
	if err != nil {
		return nil, fmt.Errorf("read the progress of jobs of %s: %w", q.Name, err)
	}
	return jobs, nil
}
