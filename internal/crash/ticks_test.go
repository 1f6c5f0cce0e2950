package crash

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

const (
	// tickRuns is a tick's run_for. What it started before must not take longer.
	tickRuns = 4 * time.Second
	// reserve is how long an idle worker waits for its database, plus the delay of a very busy machine.
	reserve = 10*time.Second + 15*time.Second
)

// outage is a way in which a database stops serving a tick without refusing it.
type outage struct {
	name, driver string
	// own asks for a separate server, because all its databases are affected.
	own bool
	// begin starts it; end ends it.
	begin func(*tickTest) (end func())
	// says is a regular expression for the tick's message.
	says string
	// long excludes it from short runs.
	long bool
	// moments are those at which it can begin.
	moments []moment
}

// moment is when an outage begins.
type moment string

const (
	atFirst  moment = "before it begins"
	idle     moment = "while it waits for jobs"
	handling moment = "while handlers run"
	amidst   moment = "in a round"
)

var outages = []outage{
	{name: "silent", driver: "mysql", begin: silent, says: "does not answer|can't be reached", moments: []moment{atFirst, idle, handling, amidst}},
	{
		name: "held", driver: "sqlite", begin: func(s *tickTest) func() { return s.db.hold(s.t, "") },
		says: "does not answer|holds the database file", moments: []moment{atFirst, idle, handling},
	},
	{
		name: "read only", driver: "mysql", own: true, begin: func(s *tickTest) func() { return s.db.readOnly(s.t) },
		says: "does not answer|another transaction", long: true, moments: []moment{atFirst, idle, handling},
	},
	{name: "full", driver: "mysql", begin: full, says: "full", moments: []moment{atFirst, handling}},
	{name: "full", driver: "sqlite", begin: fileFull, says: "disk", moments: []moment{atFirst}},
}

// TestTicks checks that a tick ends in time and obeys SIGTERM whatever its database does.
func TestTicks(t *testing.T) {
	t.Parallel()
	bin := build(t)
	for _, driver := range []string{"sqlite", "mysql"} {
		t.Run(driver, func(t *testing.T) {
			for _, o := range outages {
				for _, m := range o.moments {
					for _, told := range []bool{false, true} {
						if o.driver != driver || testing.Short() && (o.long || told && m != handling) {
							continue
						}
						name := fmt.Sprintf("%s %s", o.name, m)
						if told {
							name += ", told to stop"
						}
						t.Run(name, func(t *testing.T) {
							t.Parallel()
							newTickTest(t, bin.own(t), o).play(m, told)
						})
					}
				}
			}
		})
	}
}

// tickTest is a run of one tick.
type tickTest struct {
	*run
	outage outage
	proxy  *dbtest.Proxy
	// fileLimit limits the size of files that the tick writes, in blocks of 512 bytes; 0 is no limit.
	fileLimit int
}

func newTickTest(t *testing.T, bin binaries, o outage) *tickTest {
	t.Helper()
	source := ""
	if o.own {
		source = dbtest.OwnMySQL(t)
	} else {
		source = sourceOf(t, o.driver)
	}
	// the lock must outlast the tick's time
	p := plan{workers: 2, lockFor: 40 * time.Second, invent: (*book).inventLoud, invariants: invariants}
	s := &tickTest{run: newRun(t, p, bin, o.driver, source, uint64(time.Now().UnixNano())), outage: o}
	s.watch.every = time.Second
	if o.driver == "mysql" {
		s.proxy = dbtest.ProxyTo(t, source)
	}
	return s
}

// inventLoud makes up a job with much output to store.
func (b *book) inventLoud() spec {
	s := b.named()
	s.steps = []step{{Do: doDone, MS: 1000, Print: 16 << 10, Still: true}}
	return s
}

// play starts the outage at this moment and checks the tick's duration and message. With told, the tick has more time,
// but gets a SIGTERM.
func (s *tickTest) play(m moment, told bool) {
	ctx, stop := context.WithTimeout(s.t.Context(), *patienceFlag)
	defer stop()
	if m != idle {
		must(s.t, s.feed(ctx, 20))
	}
	var end func()
	if m == atFirst {
		end = s.outage.begin(s)
	}
	w := s.tick(told)
	deadline := w.began.Add(tickRuns + reserve)
	if m != atFirst {
		s.await(w, m)
		end = s.outage.begin(s)
	}
	if told {
		time.Sleep(time.Second)
		w.signal(syscall.SIGTERM)
		deadline = time.Now().Add(reserve)
	}
	select {
	case <-w.ended:
	case <-time.After(3 * time.Minute):
		w.signal(syscall.SIGKILL)
		<-w.ended
	}
	late := time.Since(deadline)
	end()
	said, code := w.stderr.String(), w.cmd.ProcessState.ExitCode()
	s.t.Logf("%s, exit status %d: %s", time.Since(w.began).Round(time.Second/10), code, said)
	dbtest.Ensure(s.t, late <= 0, "the tick has ended %s too late", late)
	inOrder := code == 0 && told // nothing may have been left to do
	dbtest.Ensure(s.t, inOrder || code == 75 && regexp.MustCompile(s.outage.says).MatchString(said), "exit status %d: %s", code, said)
	s.begin(ctx)()
	s.judge()
}

func (s *tickTest) tick(told bool) *worker {
	s.t.Helper()
	h := s.hipq
	if s.proxy != nil {
		h = h.by(s.t, s.proxy.Source)
	}
	runs := tickRuns
	if told {
		runs = time.Hour
	}
	c := h.command("work", "--linger", "--run-for", runs.String(), "--concurrency", "2")
	if s.fileLimit > 0 {
		c = exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -f %d; exec "$@"`, s.fileLimit), "sh"}, c.Args...)...)
	}
	w := dbtest.Must(s.fleet.start(c))(s.t)
	w.excused = true
	return w
}

// await waits until the tick reaches the moment.
func (s *tickTest) await(w *worker, m moment) {
	s.t.Helper()
	if m == amidst {
		select {
		case <-s.proxy.Catch(func(sent string) bool { return strings.Contains(sent, "status IN ('available', 'throttled')") }):
		case <-time.After(30 * time.Second):
			s.t.Fatal("the tick does nothing")
		}
		return
	}
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		id, err := s.db.workerOf(w.cmd.Process.Pid)
		ledger, e := readLedger(s.hipq.ledger)
		err = errors.Join(err, e)
		dbtest.Require(s.t, err == nil && !time.Now().After(limit), "the tick does nothing (%v): %s", err, w.stderr.String())
		if id != "" && (len(ledger) > 0) == (m == handling) {
			time.Sleep(300 * time.Millisecond)
			return
		}
	}
}

// silent drops all traffic between the tick and the server.
func silent(s *tickTest) func() {
	s.proxy.Stall()
	return s.proxy.Resume
}

func full(s *tickTest) func() { return noRoom(s.t, s.db) }

// noRoom makes the server refuse inserts with the error of a full table, until end is called.
func noRoom(t *testing.T, db *database) (end func()) {
	for _, table := range []string{activityTable, workersTable} {
		_, err := db.Exec("CREATE TRIGGER full_" + table + " BEFORE INSERT ON " + table +
			" FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'")
		must(t, err)
	}
	return func() {
		for _, table := range []string{activityTable, workersTable} {
			_, err := db.Exec("DROP TRIGGER full_" + table)
			dbtest.Ensure(t, err == nil, "%v", err)
		}
	}
}

// fileFull lets the tick write only the beginning of a file.
func fileFull(s *tickTest) func() {
	s.fileLimit = 80
	return func() {}
}
