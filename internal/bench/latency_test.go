package bench

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// BenchmarkLatency measures the time from the commit of an enqueue to the handler's start, for jobs one after the other: in a
// worker of this program, and in one of another process that polls.
func BenchmarkLatency(b *testing.B) {
	const n = 200
	program := filepath.Join(b.TempDir(), "self")
	c := exec.CommandContext(b.Context(), "go", "build", "-o", program, "./self")
	out, err := c.CombinedOutput()
	dbtest.Require(b, err == nil, "build self: %v: %s", err, out)
	for _, driver := range []string{"sqlite", "mysql"} {
		b.Run(driver, func(b *testing.B) {
			place := Place{Driver: driver, Instance: "shop", Queue: "bench"}
			if place.Source = dbtest.SQLite(b); driver == "mysql" {
				place.Source = dbtest.MySQL(b)
			}
			q := open(b, dbtest.Open(b, driver, place.Source), Plain(place.Queue))
			// waits enqueues jobs, each after the start of the last one, and reports how long they waited.
			waits := func(name string, started func() (time.Time, error)) {
				var all []time.Duration
				for i := range n + 1 {
					// not in step with the polls
					<-time.After(time.Duration(i*37%100) * time.Millisecond)
					dbtest.Must(q.Enqueue(b.Context(), q.job(i)))(b)
					committed := time.Now()
					if at := dbtest.Must(started())(b); i > 0 { // the first job finds a worker that is still beginning
						all = append(all, at.Sub(committed))
					}
				}
				slices.Sort(all)
				b.ReportMetric(all[n/2].Seconds()*1000, name+"-ms-p50")
				b.ReportMetric(all[n*95/100].Seconds()*1000, name+"-ms-p95")
			}
			for b.Loop() {
				within(b, q, func(started func() (time.Time, error)) { waits("within", started) })
				for _, poll := range []time.Duration{50 * time.Millisecond, 100 * time.Millisecond} {
					p := dbtest.Must(StartProcess(b.Context(), program, Work{Place: place, Concurrency: 4, Poll: poll}))(b)
					dbtest.OK(b, p.Begin())
					waits("poll-"+poll.String(), p.Started)
					dbtest.Must(p.Wait())(b)
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// within calls f beside a worker of this program that works on the same Queue.
func within(b *testing.B, q *Queue, f func(started func() (time.Time, error))) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	starts, ended := make(chan time.Time), make(chan error, 1)
	go func() {
		_, err := q.Drain(ctx, Workers{Concurrency: 4, Poll: time.Second, Handler: Starts(func(at time.Time) { starts <- at })})
		ended <- err
	}()
	f(func() (time.Time, error) {
		select {
		case at := <-starts:
			return at, nil
		case err := <-ended:
			return time.Time{}, errors.Join(errors.New("the worker has ended"), err)
		}
	})
	stop()
	dbtest.OK(b, <-ended)
}
