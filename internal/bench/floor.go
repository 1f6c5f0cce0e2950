package bench

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

// floor is a queue of bare SQL on one engine. It shares no code with hipq, so that changes of hipq don't affect it:
// narrow rows, one secondary index on jobs and one on the log, three log rows per job (added, starting, finished). A
// claim leases and starts jobs in one transaction; finishing them is another.
type floor interface {
	// enqueueMany adds n jobs, perTransaction at a time.
	enqueueMany(ctx context.Context, n int) error
	// drain claims and finishes all jobs, floorBatch at a time, on so many connections.
	drain(ctx context.Context, connections int) error
	// drained returns an error unless all jobs have been drained.
	drained(ctx context.Context) error
}

const floorBatch = 100

// The states of a job, and the kinds of log rows.
const (
	floorReady, floorRunning, floorDone     = 0, 1, 2
	floorAdded, floorStarted, floorFinished = 0, 1, 2
)

// floorJobs is the insert of jobs from to from+n-1. now is an expression.
func floorJobs(from, n int, now string) (query string, args []any) {
	row := fmt.Sprintf("(%d,100,%s,0,'noop',?,%s)", floorReady, now, now)
	args = make([]any, n)
	for i := range args {
		args[i] = data(from + i)
	}
	return "INSERT INTO floor_jobs (state, priority, run_at, attempt, kind, payload, created_at) VALUES " +
		row + strings.Repeat(","+row, n-1), args
}

// floorLog is the insert of a log row for each of the jobs.
func floorLog(ids []int64, what int, now string) string {
	rows := make([]string, len(ids))
	for i, id := range ids {
		rows[i] = fmt.Sprintf("(%d,%s,%d,'')", id, now, what)
	}
	return "INSERT INTO floor_log (job_id, at, what, note) VALUES " + strings.Join(rows, ",")
}

// floorIDs is the condition for these jobs.
func floorIDs(ids []int64) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = strconv.FormatInt(id, 10)
	}
	return " WHERE id IN (" + strings.Join(list, ",") + ")"
}

// inARow are n consecutive ids from first.
func inARow(first int64, n int) []int64 {
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = first + int64(i)
	}
	return ids
}

// floorDB is what a floor has on each engine.
type floorDB struct{ db *sql.DB }

func (f floorDB) close() error { return f.db.Close() }

func (f floorDB) drained(ctx context.Context) error {
	var jobs, done, logged int
	query := fmt.Sprintf("SELECT COUNT(*), COALESCE(SUM(state = %d), 0), (SELECT COUNT(*) FROM floor_log) FROM floor_jobs", floorDone)
	if err := f.db.QueryRowContext(ctx, query).Scan(&jobs, &done, &logged); err != nil {
		return err
	}
	if jobs == 0 || done != jobs || logged != 3*jobs {
		return fmt.Errorf("the floor has %d jobs, of which %d are done, and %d log rows", jobs, done, logged)
	}
	return nil
}
