package schedule_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/schedule"
)

// FuzzSpec: the next slot of a schedule comes later, and its text makes the same schedule.
func FuzzSpec(f *testing.F) {
	for i, text := range []string{
		"* * * * *", "0,30 2 * * *", "*/7 1-5/2 1,15 * mon-fri", "0 0 29 2 *", "0 0 31 2 *", "@daily", "@every 90s", "@every 1d", "59 23 31 dec sun", "0 0 * * 7",
	} {
		f.Add(text, int64(1774746000+i))
	}
	berlin := dbtest.Must(time.LoadLocation("Europe/Berlin"))(f)
	f.Fuzz(func(t *testing.T, text string, seconds int64) {
		spec, err := schedule.ParseSpec(text)
		if err != nil {
			return
		}
		again, err := schedule.ParseSpec(spec.String())
		dbtest.Ensure(t, err == nil && again.Equal(spec), "%q is %v, %v", spec, again, err)
		after := time.Unix(seconds&(1<<32-1), 0)
		next := spec.Next(after, berlin)
		dbtest.Ensure(t, next.IsZero() || next.After(after), "after %s comes %s", after, next)
	})
}
