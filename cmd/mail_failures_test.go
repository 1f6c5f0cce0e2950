package cmd

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
)

// TestMailedCounts: a count is right, or says that there may be more, and the commands select the jobs. That holds however many
// newer jobs failed, in however many other ways.
func TestMailedCounts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		q := dbtest.Must(queue.New(db, queue.Options{Name: "emails"}))(t)
		var out bytes.Buffer
		a := &app{err: &output{ctx: t.Context(), Writer: &out}}
		i := &instance{Config: &config.Config{Name: "shop", File: config.Everywhere, Location: time.UTC}, db: db}
		var ways []failedWay
		newest := map[failedWay]activity.Entry{}
		fail := func(n, firstID int, year, jobType, why string) {
			var rows []string
			for k := range n {
				each := strings.ReplaceAll(jobType, "N", fmt.Sprint(k))
				rows = append(rows, fmt.Sprintf("(%d, '%s', 'failed', '%s-01-01 00:00:00.000000', 1, 60, 1, 1, 'NONE', '%s')", firstID+k, each, year, why))
			}
			dbtest.Exec(t, db.SQL, "INSERT INTO shop_emails (id, job_type, status, scheduled_run_time, attempt, timeout, priority, throttle_factor, time_windows, error) VALUES "+
				strings.Join(rows, ", "))
			w := wayOf(jobType, why)
			ways, newest[w] = append(ways, w), activity.Entry{State: activity.Failed, At: time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC), Error: why}
		}
		mails := func(among int, want ...string) {
			t.Helper()
			out.Reset()
			dbtest.OK(t, (mailing{app: a, of: i, among: among}).mailQueue(t.Context(), q, ways[:3], newest))
			said := out.String()
			dbtest.Same(t, strings.Count(said, "hipq: "), 3)
			for _, w := range want {
				dbtest.Ensure(t, strings.Contains(said, w), "among %d jobs it says %q, without %q", among, said, w)
			}
		}
		fail(1, 1, "2020", "upload", "disk full")
		fail(1, 2, "2020", "pack", "not a valid job: time_windows: x")
		fail(5, 1_000_000, "2021", "send", "no route")
		upload := " --type upload --fingerprint " + ways[0].fingerprint
		mails(100, "hipq: 5 jobs of emails/send have failed for good since ", "hipq: 1 job of emails/upload has failed for good since ", "hipq: 1 job of emails/pack has ")
		older := []string{
			"hipq: at least 1 job of emails/upload has failed for good since 2020-01-02 00:00:00 UTC: disk full\n",
			"look:  hipq failures emails" + upload + "\n", "retry: hipq retry emails" + upload + "   # after",
			"hipq: at least 1 job of emails has failed for good since ", "look:  hipq failures emails --error 'not a valid job'\n",
		}
		mails(3, append(older, "hipq: at least 3 jobs of emails/send have failed for good since ")...)
		// more newer ways than are told from each other
		fail(1000, 2_000_000, "2022", "otherN", "broken")
		mails(100_000, append(older, "hipq: at least 1 job of emails/send has failed ")...)
	})
}
