package crash

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

var cronFlag = flag.Int("crash.cron", 0, "for how many minutes to live with cron: 50 at least")

const cronConfig = `
name: crash
database: %s
alert: {no_tick_for: {warning: 4m, critical: 10m}}
queues:
  - name: emails
    retry: {attempts: 5, delay: 4m, backoff: fixed}
    job_types:
      - {name: send, handler: {exec: ["true"]}}
      - {name: invoice, handler: {exec: [sh, -c, "test -e mended || { echo the printer is on fire >&2; exit 1; }"]}}
`

// mail is one message that a command printed, and that cron would mail.
type mail struct {
	minute  int
	command string
	text    string
}

// cronHost runs commands like cron.
type cronHost struct {
	t       *testing.T
	program string
	dir     string
	minute  int
	running sync.WaitGroup
	mu      sync.Mutex
	mails   []mail
}

// run starts a command without waiting for it.
func (c *cronHost) run(args ...string) {
	minute := c.minute
	c.running.Go(func() {
		cmd := exec.Command(c.program, args...)
		cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "HOME="+c.dir, "XDG_CACHE_HOME="+filepath.Join(c.dir, "cache"))
		out, err := cmd.CombinedOutput()
		if len(out) == 0 {
			return
		}
		command := strings.Join(args, " ")
		c.t.Logf("minute %d: hipq %s (%v):\n%s", minute, command, err, out)
		c.mu.Lock()
		defer c.mu.Unlock()
		for text := range strings.SplitSeq(strings.TrimPrefix("\n"+string(out), "\nhipq: "), "\nhipq: ") {
			c.mails = append(c.mails, mail{minute, command, text})
		}
	})
}

// trouble is a cause of mails. It begins in minute from and ends in minute to.
type trouble struct {
	from, to   int
	begin, end func()
	// named matches the mail about it, over the mail about its end. Each is sent once; the latter not before minute late.
	named, over string
	late        int
}

// TestHourOfCron runs hipq work each minute and hipq monitor every five. The database is away twice, a handler is broken, hipq
// work is missing in the crontab for a while, a disk is full, and a password is changed. Each cause and its end are mailed
// once, and nothing else. -crash.cron sets the minutes.
func TestHourOfCron(t *testing.T) {
	dbtest.SkipIf(t, *cronFlag == 0, "it takes an hour: make crash")
	t.Parallel()
	program := build(t)
	source := dbtest.MySQL(t)
	proxy := dbtest.ProxyTo(t, source)
	db := openDatabase(t, "mysql", source)
	c := &cronHost{t: t, program: program, dir: t.TempDir()}
	own := dbtest.Must(mysql.ParseDSN(proxy.Source))(t)
	own.User, own.Passwd = "cron_"+strings.TrimPrefix(own.DBName, "hipq_"), "old"
	password := func(how, is string) { dbtest.Must(db.Exec(how + " USER '" + own.User + "'@'%'" + is))(t) }
	password("CREATE", " IDENTIFIED BY 'old'")
	defer password("DROP", "")
	dbtest.Must(db.Exec("GRANT ALL ON `" + own.DBName + "`.* TO '" + own.User + "'@'%'"))(t)
	configs := map[string]string{"hipq.yaml": own.FormatDSN(), "direct.yaml": source}
	for name, source := range configs {
		dbtest.OK(t, os.WriteFile(filepath.Join(c.dir, name), fmt.Appendf(nil, cronConfig, dbtest.Section("mysql", source)), 0o600))
	}
	direct := func(args ...string) {
		cmd := exec.Command(c.program, append(args, "--config", "direct.yaml")...)
		cmd.Dir = c.dir
		out, err := cmd.CombinedOutput()
		dbtest.Ensure(t, err == nil, "hipq %q: %v\n%s", args, err, out)
	}
	direct("init")
	line, room := true, func() {}
	troubles := []trouble{
		{from: 3, to: 6, begin: proxy.Cut, end: proxy.Mend, named: `can't be reached|does not answer`, over: `recovered at`},
		{
			from: 8, to: 13, begin: func() { direct("enqueue", "emails", "invoice") },
			end:   func() { dbtest.OK(t, os.WriteFile(filepath.Join(c.dir, "mended"), nil, 0o600)) },
			named: `the printer is on fire`, over: `resolved: .*invoice`, late: 68, // an hour after the mail about it
		},
		{from: 19, to: 28, begin: func() { line = false }, end: func() { line = true }, named: `no sign of a worker`, over: `resolved: a worker runs again`},
		{from: 31, to: 34, begin: func() { room = noRoom(t, db) }, end: func() { room() }, named: `full`, over: `recovered at|resolved: .*(full|disk)`},
		{from: 39, to: 42, begin: proxy.Stall, end: proxy.Resume, named: `can't be reached|does not answer`, over: `recovered at`},
		{
			from: 49, to: 52, begin: func() { password("ALTER", " IDENTIFIED BY 'new'") }, end: func() { password("ALTER", " IDENTIFIED BY 'old'") },
			named: `check the user, the password`, over: `recovered at`,
		},
	}
	for ; c.minute < *cronFlag; c.minute++ {
		for _, what := range troubles {
			switch c.minute {
			case what.from:
				what.begin()
			case what.to:
				what.end()
			}
		}
		for range 5 {
			if c.minute < 31 || c.minute >= 34 {
				direct("enqueue", "emails", "send")
			}
		}
		if line {
			c.run("work")
		}
		if c.minute%5 == 0 {
			c.run("monitor")
		}
		select {
		case <-time.After(time.Minute):
		case <-t.Context().Done():
			t.FailNow()
		}
	}
	c.running.Wait()
	c.judge(troubles)
}

// judge checks that each trouble and its end were mailed once, and nothing else.
func (c *cronHost) judge(troubles []trouble) {
	told := map[int]bool{}
	for _, what := range troubles {
		for pattern, within := range map[string][2]int{what.named: {what.from, what.to + 1}, what.over: {max(what.to, what.late), max(what.to, what.late) + 7}} {
			found := 0
			for n, m := range c.mails {
				if !told[n] && m.minute >= within[0] && m.minute <= within[1] && regexp.MustCompile(pattern).MatchString(m.text) {
					told[n] = true
					found++
				}
			}
			dbtest.Same(c.t, found, 1, "mails from minute %d to %d that say %s", within[0], within[1], pattern)
		}
	}
	for n, m := range c.mails {
		dbtest.Ensure(c.t, told[n], "nobody wanted to know, in minute %d, from %s:\n%s", m.minute, m.command, m.text)
	}
}

// noRoom makes the server refuse inserts with the error of a full table, until end is called.
func noRoom(t *testing.T, db *database) (end func()) {
	for _, table := range []string{"crash_activity", "crash_workers"} {
		dbtest.Must(db.Exec("CREATE TRIGGER full_" + table + " BEFORE INSERT ON " + table +
			" FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'"))(t)
	}
	return func() {
		for _, table := range []string{"crash_activity", "crash_workers"} {
			dbtest.Must(db.Exec("DROP TRIGGER full_" + table))(t)
		}
	}
}
