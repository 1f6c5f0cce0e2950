package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// TestMailOutage checks the messages of a tick that an outage interrupted, and of later ticks.
func TestMailOutage(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	var out bytes.Buffer
	a := &app{out: &output{ctx: t.Context(), Writer: io.Discard}, err: &output{ctx: t.Context(), Writer: &out}, signals: &signals{}, command: "work"}
	c := &config.Config{File: "/etc/hipq.yaml", Mail: true, Location: time.UTC}
	at := time.Now().Add(-3 * time.Minute)
	ends := func(done worker.Summary, err error, want ...string) {
		t.Helper()
		out.Reset()
		if err = a.mailOutage(c, nil, done, err); !errors.As(err, new(unsaid)) {
			a.report(exitTryLater, err, "")
		}
		said := out.String()
		dbtest.Ensure(t, len(want) > 0 || said == "", "it says %q", said)
		for _, w := range want {
			dbtest.Ensure(t, strings.Contains(said, w), "it says %q, without %q", said, w)
		}
	}
	// what a person was told is news to cron
	a.configFile, a.typed = "/etc/other.yaml", true
	ends(worker.Summary{}, schema.ErrNoAnswer, "hipq: the database does not answer\n")
	a.typed = false
	ends(worker.Summary{}, schema.ErrNoAnswer, "hipq: the database does not answer\n", "; this message is repeated every 15 minutes")
	ends(worker.Summary{}, schema.ErrNoAnswer)
	a.configFile = ""
	since := zonedTime(at, time.UTC)
	ends(worker.Summary{Started: 5, Finished: 2, Errors: 1, Answered: at}, schema.ErrNoAnswer, "hipq: the database does not answer\n",
		"  the database last answered at "+since+", 3 min ago; the results of 2 jobs could not be saved: the jobs count as lost with their worker, and are retried",
		"; hipq work first failed at "+since+"; this message is repeated every 15 minutes")
	ends(worker.Summary{}, schema.ErrNoAnswer)
	a.typed = true // a person hears it each time
	ends(worker.Summary{}, schema.ErrNoAnswer, "hipq: the database does not answer\n")
	a.typed = false
	// an interrupted tick always reports; a lost lock alone doesn't prove an outage
	ends(worker.Summary{Started: 1, Finished: 1, Answered: at}, schema.ErrNoAnswer, "the database last answered at "+since+", 3 min ago; hipq work first failed at "+since)
	ends(worker.Summary{Started: 1, Answered: at}, worker.ErrLockLost, "the results of 1 job could not be saved")
	dbtest.Ensure(t, !strings.Contains(out.String(), "first failed"), "a lost lock is an outage: %s", &out)
	// if the database was away, that is why the lock was lost
	ends(worker.Summary{Started: 1, Answered: at}, fmt.Errorf("the database is away: %w (%w)", schema.ErrNoAnswer, worker.ErrLockLost),
		"hipq: the database is away: the database does not answer (worker lost its lock)\n", "hipq work first failed at "+since)
	dbtest.Ensure(t, !strings.Contains(out.String(), "stalled"), "it guesses: %s", &out)
	// an error that the database returned is reported as it is
	ends(worker.Summary{Started: 1}, schema.ErrHeld, schema.ErrHeld.Error()+"\n")
	c.Mail = false
	ends(worker.Summary{}, schema.ErrNoAnswer)
	ends(worker.Summary{Started: 1, Answered: at}, schema.ErrNoAnswer, "the results of 1 job could not be saved")
}

// TestCause: a failure of the database is one cause, whatever hipq was doing; two mistakes of a config are two.
func TestCause(t *testing.T) {
	denied := &mysql.MySQLError{Number: 1045, Message: "Access denied for user 'hipq'@'localhost' (using password: YES)"}
	notable := fmt.Errorf("%w: the database has no table shop_files", schema.ErrNotMigrated)
	known := map[string]error{}
	for _, same := range [][]error{
		{denied, fmt.Errorf("connect to the database: %w", denied), fmt.Errorf("renew the lock: %w", fmt.Errorf("begin: %w", denied))},
		{&mysql.MySQLError{Number: 1049, Message: "Unknown database 'shop'"}},
		{notable},
		{fmt.Errorf("%w: the database has no table shop_mail", schema.ErrNotMigrated)},
		{fmt.Errorf("%w: concurency: unknown key", config.ErrInvalid)},
		{fmt.Errorf("%w: concurrencies: unknown key", config.ErrInvalid)},
		{schema.ErrNoAnswer, fmt.Errorf("poll: %w", schema.ErrNoAnswer)},
	} {
		word := cause(same[0]).Word
		for _, err := range same {
			dbtest.Ensure(t, known[word] == nil && cause(err).Word == word && strings.Contains(cause(err).Text, err.Error()), "%v is the cause of %v", known[word], err)
		}
		known[word] = same[0]
	}
}

// TestAsService checks that root can paste the commands of a user without a shell. Other users' commands are unchanged.
func TestAsService(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\nhipq:x:998:998::/var/lib/hipq:/usr/sbin/nologin\nann:x:1000:1000:Ann:/home/ann:/bin/sh\n"
	for name, want := range map[string]string{"root": "", "ann": "", "nosuch": "", "hipq": "runuser -u hipq -- "} {
		dbtest.Same(t, asService(passwd, name), want, name)
	}
}

// TestMailedCounts: a count is right, or says that there may be more, and the commands select the jobs. That holds however many
// newer jobs failed, in however many other ways.
func TestMailedCounts(t *testing.T) {
	t.Parallel()
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
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
			dbtest.Exec(t, db.SQL, "DELETE FROM shop_notices") // else nothing is mailed again
			m := mailing{a, i, alert.NewLog(db), dbtest.Must(db.SQL.Clock(t.Context()))(t), among}
			dbtest.OK(t, m.mail(t.Context(), q, ways[:3], newest))
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
	}, "emails")
}

// TestFindingOfNotice: a notice names its finding, also if the job type ends with a blank, as a misspelt one may.
func TestFindingOfNotice(t *testing.T) {
	for _, f := range []found{
		{"0123abcd", "critical", "no_tick", "", ""},
		{"0123abcd", "warning", "backlog", "emails", ""},
		{"0123abcd", "warning", "oldest_due", "emails", "send"},
		{"0123abcd", "warning", "oldest_due", "emails", "send "},
		{"0123abcd", "warning", "oldest_due", "emails", "send a letter"},
	} {
		dbtest.Same(t, foundOf(f.notice("finding")), f)
	}
}
