package job_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/job"
)

// FuzzWindow: a window is refused, or is the same when it was formatted or stored, and its next opening is inside.
func FuzzWindow(f *testing.F) {
	for i, text := range []string{"mon-fri 09:00-17:30", "22:00-06:00", "sat,sun", "fri-mon 23:59-24:00", "sun 00:00-00:01", "mon 10:00-10:00", "mon-sun"} {
		f.Add(text, int64(1774746000+i))
	}
	berlin := dbtest.Must(time.LoadLocation("Europe/Berlin"))(f)
	f.Fuzz(func(t *testing.T, text string, seconds int64) {
		if stored, err := job.DecodeWindows(text); err == nil {
			again, err := job.DecodeWindows(stored.Encode())
			dbtest.Ensure(t, err == nil && again.Encode() == stored.Encode(), "%q, and again %q, %v", stored.Encode(), again.Encode(), err)
		}
		w, err := job.ParseWindow(text)
		if err != nil {
			dbtest.Ensure(t, errors.Is(err, job.ErrWindow), "%v", err)
			return
		}
		again, err := job.ParseWindow(w.String())
		dbtest.Ensure(t, err == nil && again == w, "%s, and again %s, %v", w, again, err)
		at, ws := time.Unix(seconds&(1<<32-1), 0).In(berlin), job.Windows{w}
		next := ws.Next(at)
		dbtest.Ensure(t, !next.Before(at) && ws.Contains(next), "from %s on, the next is %s", at, next)
	})
}
