package cmd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// TestLineIsNotToBlame: a line isn't bad if only the database's clock can't be read.
func TestLineIsNotToBlame(t *testing.T) {
	l := dbtest.Must(readJobLine([]byte(`{"queue":"emails","job_type":"send","scheduled_run_time":"+1h"}`)))(t)
	for want, bad := range map[error]bool{schema.ErrHeld: false, context.Canceled: false, errors.New("no time"): true} {
		_, err := l.job(func(string) (time.Time, error) { return time.Time{}, want })
		n := &ndjson{file: "jobs.ndjson", line: 3}
		got := n.refused(err)
		dbtest.Ensure(t, errors.Is(got, want) != bad && (n.mend != "") == bad, "%v: %v, to mend: %q", want, got, n.mend)
	}
}
