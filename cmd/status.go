package cmd

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue/roster"
)

const statusLong = `Shows for each queue how many jobs are due, held back by a full throttle group, scheduled for later, locked, running,
waiting for an answer (WAITING) or for their retry decision (ERROR), and failed for good or finished; since when the oldest
due job waits; and the last worker.

Exit codes: 0 done · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show the queues and the last worker",
		Long:    statusLong,
		Example: "  hipq status\n  watch hipq status",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runStatus(cmd) },
	}
}

// queueStatus is what status says of a queue.
type queueStatus struct {
	Queue     string     `json:"queue"`
	Paused    bool       `json:"paused"`
	Due       int64      `json:"due"`
	Scheduled int64      `json:"scheduled"`
	Locked    int64      `json:"locked"`
	Running   int64      `json:"running"`
	Error     int64      `json:"error"`
	Failed    int64      `json:"failed"`
	Finished  int64      `json:"finished"`
	Held      int64      `json:"held"`
	Waiting   int64      `json:"waiting"`
	OldestDue *time.Time `json:"oldest_due"`
}

// workerStatus is what status says of the last worker.
type workerStatus struct {
	ID        string     `json:"id"`
	Host      string     `json:"host"`
	PID       int        `json:"pid"`
	State     string     `json:"state"`
	StartTime *time.Time `json:"start_time"`
	Heartbeat *time.Time `json:"heartbeat"`
	EndTime   *time.Time `json:"end_time"`
}

func (a *app) runStatus(cmd *cobra.Command) error {
	i, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	queues, err := i.queues(cmd.Context())
	if err != nil {
		return err
	}
	report := struct {
		Queues     []queueStatus `json:"queues"`
		LastWorker *workerStatus `json:"last_worker"`
	}{Queues: []queueStatus{}}
	for _, q := range queues {
		c, err := q.Counts(cmd.Context())
		if err != nil {
			return err
		}
		report.Queues = append(report.Queues, queueStatus{
			Queue: q.Name, Paused: c.Paused, Due: c.Due, Scheduled: c.Scheduled, Locked: c.Locked, Running: c.Running, Error: c.Error,
			Failed: c.Failed, Finished: c.Finished, Held: c.Held, Waiting: c.Waiting, OldestDue: utc(c.OldestDue),
		})
	}
	last, err := roster.New(i.db).Last(cmd.Context())
	if err != nil {
		return err
	}
	if last != nil {
		report.LastWorker = &workerStatus{
			last.ID, last.Host, last.PID, last.State, utc(last.StartTime.Time), utc(last.Heartbeat.Time), utc(last.EndTime.Time),
		}
	}
	if a.json {
		return a.printJSON(report)
	}
	return a.printStatus(i, report.Queues, report.LastWorker)
}

func (a *app) printStatus(i *instance, queues []queueStatus, last *workerStatus) error {
	var rows [][]string
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, q := range queues {
		oldest := "–"
		if q.OldestDue != nil {
			oldest = i.local(*q.OldestDue)
		}
		name := q.Queue
		if q.Paused {
			name += " (paused)"
		}
		rows = append(rows, []string{
			name, number(q.Due), number(q.Held), number(q.Scheduled), number(q.Locked), number(q.Running), number(q.Waiting),
			number(q.Error), number(q.Failed), number(q.Finished), oldest,
		})
	}
	header := []string{"QUEUE", "DUE", "HELD", "SCHEDULED", "LOCKED", "RUNNING", "WAITING", "ERROR", "FAILED", "FINISHED", "OLDEST DUE"}
	if err := table(a.out, header, rows); err != nil {
		return err
	}
	if last == nil {
		_, err := fmt.Fprintln(a.out, "no worker has run yet: is hipq work in crontab?")
		return err
	}
	_, err := fmt.Fprintf(a.out, "last worker: %s, %s, pid %d on %s, started %s, last heartbeat %s\n",
		last.ID, last.State, last.PID, cell(last.Host), i.maybe(last.StartTime), i.maybe(last.Heartbeat))
	return err
}
