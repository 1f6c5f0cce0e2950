package monitor

import (
	"fmt"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

func TestZZ(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := open(t, driver, source)
		m := New(db)
		hour := complete(t, m)
		n := 1_000_000
		st := []activity.State{activity.Added, activity.Starting, activity.Finished}
		for n > 0 {
			err := db.Tx(t.Context(), func(tx *schema.Tx) error {
				tx.Now = hour.Add(time.Duration(n) * time.Millisecond * 3)
				es := make([]activity.Entry, 5000)
				for i := range es {
					es[i] = activity.Entry{Kind: activity.Job, State: st[i%3], Queue: "mail", JobType: fmt.Sprint("t", i%7), JobKey: "0123456789012345678901234567890123456", WorkerID: "123456789012345678901234567890123456", Host: "host", PID: 1234, Attempt: 1, RunMS: 3}
				}
				return activity.New(db).Record(t.Context(), tx, es)
			})
			if err != nil {
				t.Fatal(err)
			}
			n -= 5000
		}
		s := time.Now()
		take(t, m, hour, TakeOptions{Gauge: true})
		t.Log(driver, "take 1M", time.Since(s))
		s = time.Now()
		_, err := m.Report(t.Context(), hour)
		t.Log("report", time.Since(s), err)
		done := make(chan struct{})
		other := connect(t, driver, source)
		go func() {
			defer close(done)
			s := time.Now()
			r, err := activity.New(db).Purge(t.Context(), activity.PurgeOptions{Before: hour.Add(20 * time.Minute)})
			t.Log("purge", r, err, time.Since(s))
		}()
		var worst, sum time.Duration
		k := 0
		for {
			select {
			case <-done:
				t.Log("writer: worst", worst, "avg", sum/time.Duration(max(k, 1)), k)
				return
			default:
			}
			s := time.Now()
			err := other.Tx(t.Context(), func(tx *schema.Tx) error {
				return activity.New(other).Record(t.Context(), tx, []activity.Entry{{Kind: activity.Job, State: activity.Added}})
			})
			if err != nil {
				t.Error(err)
			}
			d := time.Since(s)
			worst, sum, k = max(worst, d), sum+d, k+1
		}
	})
}
