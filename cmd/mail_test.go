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

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/dbtest"
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
