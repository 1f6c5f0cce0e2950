package job_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/queue/job"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestTimeOfAnotherZone: a time is judged by its year in UTC, as the tables have it.
func TestTimeOfAnotherZone(t *testing.T) {
	west := time.FixedZone("", -5*60*60)
	for at, fits := range map[time.Time]bool{
		time.Date(9998, 12, 31, 18, 0, 0, 0, west): true, time.Date(9998, 12, 31, 19, 0, 0, 0, west): false,
		time.Date(1969, 12, 31, 19, 0, 0, 0, west): true, time.Date(1969, 12, 31, 18, 0, 0, 0, west): false,
	} {
		err := (job.Params{Type: "any", At: at}).Check()
		dbtest.Ensure(t, (err == nil) == fits, "%s: %v", at, err)
	}
}
