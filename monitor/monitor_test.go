package monitor

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// queues are registered in every test database.
var queues = []string{"mail", "report"}

func TestMain(m *testing.M) {
	countPart = 2
	os.Exit(dbtest.Main(m, queues...))
}

// open opens the test's database and registers the queues.
func open(t *testing.T, driver, source string) *schema.DB {
	t.Helper()
	db := dbtest.Open(t, driver, source, queues...)
	for _, q := range queues {
		exec(t, db, "INSERT INTO "+db.Queues()+" (queue) VALUES (?)", q)
	}
	return db
}

// each runs a test beside others, on a new database of each engine.
func each(t *testing.T, f func(t *testing.T, m *Monitor)) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) { f(t, New(open(t, driver, source))) })
}

func exec(t rapid.TB, db *schema.DB, statement string, args ...any) {
	t.Helper()
	dbtest.Must(db.SQL.ExecContext(context.Background(), statement, args...))(t)
}

// logged writes activity entries at their own times.
func logged(t rapid.TB, db *schema.DB, entries ...activity.Entry) {
	t.Helper()
	dbtest.OK(t, db.SQL.Tx(context.Background(), func(tx *engine.Tx) error {
		for _, e := range entries {
			tx.Now = e.At
			if err := activity.Write(context.Background(), tx, db, []activity.Entry{e}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// aggregate aggregates an hour, and fails the test on an error.
func aggregate(t rapid.TB, m *Monitor, hour time.Time, o AggregateOptions) bool {
	t.Helper()
	return dbtest.Must(m.Aggregate(context.Background(), hour, o))(t)
}

// stored returns the metrics of one hour.
func stored(t rapid.TB, m *Monitor, hour time.Time) map[key]metric {
	t.Helper()
	rows := map[key]metric{}
	dbtest.OK(t, m.eachMetric(context.Background(), m.db.SQL, hour, hour.Add(time.Hour), func(r *metric) {
		of := *r
		of.Wait.histogram, of.Run.histogram = slices.Clone(r.Wait.histogram), slices.Clone(r.Run.histogram)
		rows[r.key()] = of
	}))
	return rows
}

func complete(t *testing.T, m *Monitor) time.Time {
	t.Helper()
	return dbtest.Must(m.LastComplete(t.Context()))(t)
}

// anyEntry returns a random entry of a worker or a job in [from, to), often at either end.
func anyEntry(r *rand.Rand, from, to time.Time) activity.Entry {
	at := from
	switch r.IntN(6) {
	case 0:
	case 1:
		at = to.Add(-time.Microsecond)
	default:
		at = from.Add(time.Duration(r.Int64N(to.Sub(from).Microseconds())) * time.Microsecond)
	}
	e := activity.Entry{At: at, Kind: activity.Worker, WorkerID: "w"}
	if r.IntN(4) == 0 {
		e.State = []activity.State{activity.Starting, activity.Finished, activity.Error}[r.IntN(3)]
		return e
	}
	e.Kind = activity.Job
	e.State = activity.States[r.IntN(len(activity.States))]
	e.Queue = []string{"mail", "report", "gone"}[r.IntN(3)] // gone is not registered
	e.JobType = []string{"send", "Send", "send ", "größe", activity.None}[r.IntN(5)]
	e.JobID, e.Attempt = r.Int64N(100)+1, r.IntN(3)
	if e.State == activity.Starting {
		e.WaitMS = r.Int64N(5000)
	} else if e.State != activity.Added {
		e.RunMS = r.Int64N(5000)
	}
	return e
}

// shown compares counts without their histograms.
var shown = cmp.Options{cmp.AllowUnexported(key{}), cmpopts.IgnoreUnexported(Times{})}

// summed computes the derived fields of counts.
func summed(counts map[key]Counts) map[key]Counts {
	for k, c := range counts {
		c.sum()
		counts[k] = c
	}
	return counts
}

// recount counts the entries one by one, as an oracle for count.
func recount(entries []activity.Entry, from, to time.Time) (map[key]Counts, Workers) {
	counts, workers := map[key]Counts{}, Workers{}
	for _, e := range entries {
		if e.At.Before(from) || !e.At.Before(to) || e.Kind != activity.Worker && slices.Contains(activity.Operated, e.State) {
			continue
		}
		if e.Kind == activity.Worker {
			switch e.State {
			case activity.Starting:
				workers.Started++
			case activity.Finished:
				workers.Finished++
			case activity.Error:
				workers.Died++
			}
			continue
		}
		c := counts[key{e.Queue, e.JobType}]
		switch e.State {
		case activity.Added:
			c.Added++
		case activity.Starting:
			c.Started++
			c.Wait.put(e.WaitMS)
		case activity.Finished:
			c.Finished++
		case activity.Error:
			c.Errors++
		case activity.Failed:
			c.Failed++
		}
		if slices.Contains([]activity.State{activity.Finished, activity.Error, activity.Failed, activity.Released}, e.State) {
			c.Run.put(e.RunMS)
		}
		counts[key{e.Queue, e.JobType}] = c
	}
	return counts, workers
}

func TestLastComplete(t *testing.T) {
	for _, c := range []struct{ now, want string }{
		{"2025-03-30T10:04:59.999999Z", "2025-03-30T08:00:00Z"},
		{"2025-03-30T10:05:00Z", "2025-03-30T09:00:00Z"},
		{"2025-03-30T11:04:00Z", "2025-03-30T09:00:00Z"},
		{"2025-03-30T00:05:00Z", "2025-03-29T23:00:00Z"},
		{"2025-03-30T12:07:00+05:30", "2025-03-30T05:00:00Z"},
	} {
		now := dbtest.Must(time.Parse(time.RFC3339Nano, c.now))(t)
		hour := lastComplete(now)
		dbtest.Same(t, hour.Format(time.RFC3339), c.want, "at %s", c.now)
		dbtest.Ensure(t, !now.Before(completeAt(hour)) && now.Before(completeAt(hour.Add(time.Hour))),
			"at %s: %s is not the last that is complete", c.now, hour)
	}
}
