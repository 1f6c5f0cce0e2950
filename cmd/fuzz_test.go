package cmd

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/dbtest"
)

// FuzzNDJSON: a line is a job or a mistake that is said in UTF-8.
func FuzzNDJSON(f *testing.F) {
	for _, line := range []string{
		`{"queue":"emails","job_type":"send","job_data":{"to":"a"},"job_key":"k","priority":5,"timeout":"5m"}`,
		`{"queue":"emails","job_type":"send","job_data":"text","timeout":90,"time_windows":["mon 10:00-11:00"],"shard_key":""}`,
		`{"queue":"emails","job_type":"send","scheduled_run_time":"2026-12-31T23:00:00Z","throttle_factor":0,"job_data":null}`,
		`{"queue":"emails","queue":"x"}`, `{"Queue":1}`, `{"job_data":"\ud800"}`, `[]`, `{`, `{"timeout":1e400}`, `{} {}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if !utf8.Valid(line) {
			return // refused before
		}
		l, err := readJobLine(line)
		if err == nil {
			_, err = l.job(func(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) })
		}
		dbtest.Ensure(t, err == nil || utf8.ValidString(err.Error()), "%q", err)
	})
}
