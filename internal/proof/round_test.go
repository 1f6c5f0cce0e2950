package proof

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/hipq/hipq/internal/dbtest"
)

// binaries are the programs that are built for a turn.
type binaries struct{ hipq, handler, player string }

func build(t *testing.T) (b binaries) {
	t.Helper()
	dir := t.TempDir()
	for to, pkg := range map[*string]string{&b.hipq: "github.com/hipq/hipq", &b.handler: "./testdata/handler", &b.player: "./testdata/player"} {
		*to = filepath.Join(dir, filepath.Base(pkg))
		c := exec.Command("go", "build", "-o", *to, pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := c.CombinedOutput()
		dbtest.Require(t, err == nil, "build %s: %v\n%s", pkg, err, out)
	}
	return b
}

// round is an instance of hipq with all that is known of it from outside.
type round struct {
	t      *testing.T
	turn   turn
	number int
	seed   uint64
	rng    *rand.Rand
	until  time.Time

	bin    binaries
	driver string
	// source is the database as hipq reaches it. db reaches the same one without a fault on the way.
	source string
	db     *sql.DB
	dir    string
	config string
	// ways, if not nil, are configs that name the nodes of a cluster in different orders, for one command each in turn.
	ways []string
	way  atomic.Int32
	// ledger is the handlers' file.
	ledger   string
	settings settings
	// says is what a command with exit code 75 says.
	says *regexp.Regexp
	// blames, if not nil, is the cause of any failure that says it, of commands and of attempts.
	blames *regexp.Regexp
	// never, if not nil, is what no command says, but for those that ran beside one of the stalls.
	never  *regexp.Regexp
	stalls []span

	mu   sync.Mutex
	asks []ask
	// answers are the jobs for which a client was told that they are complete, or may be. workers are the states of workers.
	answers map[string]bool
	workers map[string]string
	ticks   []*tick
	faults  []fault
	// over collects what was found on the way.
	over  map[string]bool
	notes []string
	// found are violations that the kind's own checks have found. complaints are what commands said that they never say.
	found      []string
	complaints []complaint
	// starter starts commands in a special way; nil for none. inside is the id by which a process knows itself, if not nil.
	starter func(*exec.Cmd) (wait func(), err error)
	inside  func(pid int) int
	// idle looks for a standstill of all workers during the faults, if not nil, and must learn of the faults.
	idle *dbtest.Watch
	// alone is set while the round looks for a standstill of one worker: no job waits for an answer then.
	alone atomic.Bool
	// ahead is how far the database's clock is ahead then.
	ahead time.Duration
	// dark is set while the power is off: no command starts.
	dark bool
	// jumps are when the database's clock was put forward, and resumed when a host that was stopped went on.
	jumps, resumed []int64
	// late makes up some jobs that workers in SQL settle when another runs them, and lasting some that outlast a lock.
	late, lasting bool
	// made is the number of jobs that were made up, by inventor.
	made     int
	inventor *rand.Rand
	// judged are the names of jobs that were judged already, and may be gone since.
	judged map[id]string
	// more counts jobs without an ask.
	more int
}

// settings are what a round's config varies.
type settings struct {
	limit, rate, shards int
	// groups are the limits of job types, in every fourth round.
	groups map[string]int
}

const (
	lockFor = 5 * time.Second // the minimum of worker.lock_for
	// Kills must not exhaust the attempts of ordinary types.
	attempts        = 60
	fragileAttempts = 3
)

// queues have the same job types. The first has a throttle limit, a rate or shards.
var queues = []string{"mail", "files"}

func newRound(t *testing.T, u turn, number int, bin binaries) *round {
	r := &round{
		t: t, turn: u, number: number, seed: seed(u, number), bin: bin, driver: u.driver(), dir: t.TempDir(),
		over: map[string]bool{}, answers: map[string]bool{}, workers: map[string]string{}, says: regexp.MustCompile("."),
	}
	r.inventor = r.random(2)
	r.rng = r.random(0)
	r.settings = settings{
		limit: []int{0, 3, 6}[r.rng.IntN(3)], rate: []int{0, 0, 12}[r.rng.IntN(3)], shards: []int{1, 1, 3}[r.rng.IntN(3)],
	}
	if number%4 == 1 && !u.kind.byDefault {
		r.settings.groups = map[string]int{"plain": 2, "*": 3}
	}
	if r.driver == "sqlite" {
		r.source = filepath.Join(r.dir, "hipq.db")
	} else {
		r.source = dbtest.MySQL(t)
	}
	r.begin()
	return r
}

// begin makes the instance in the round's database.
func (r *round) begin() {
	r.ledger, r.config = filepath.Join(r.dir, "ledger"), filepath.Join(r.dir, "hipq.yaml")
	dbtest.OK(r.t, os.WriteFile(r.ledger, nil, 0o600))
	r.connect(r.source)
	r.configure(r.source)
	dbtest.Must(r.run("init", "--yes"))(r.t)
}

// connect opens the checks' own connection.
func (r *round) connect(source string) {
	if r.driver == "sqlite" {
		source = "file:" + source + "?_pragma=busy_timeout(20000)"
	}
	r.db = dbtest.Must(sql.Open(r.driver, source))(r.t)
	r.t.Cleanup(func() { _ = r.db.Close() })
}

// configure writes the config with this way to the database.
func (r *round) configure(source string) {
	var c strings.Builder
	fmt.Fprintf(&c, "name: proof\ndatabase: %s\n", dbtest.Section(r.driver, source))
	if !r.turn.kind.byDefault {
		fmt.Fprintf(&c, "worker: {lock_for: %s, grace: 0s}\ntimeout: 30s\n", lockFor)
	}
	fmt.Fprintf(&c, "retry: {attempts: %d, backoff: fixed%s}\nqueues:\n", attempts, when(r.turn.kind.byDefault, "", ", delay: 100ms, jitter: 1"))
	handler := fmt.Sprintf("handler: {exec: [%q, %q]}", r.bin.handler, r.ledger)
	for i, q := range queues {
		fmt.Fprintf(&c, "  - name: %s\n", q)
		if i == 0 {
			fmt.Fprintf(&c, "    throttle_limit: %d\n    shards: %d\n", r.settings.limit, r.settings.shards)
			if r.settings.rate > 0 {
				fmt.Fprintf(&c, "    rate: %d/1s\n", r.settings.rate)
			}
			if len(r.settings.groups) > 0 {
				fmt.Fprintf(&c, "    throttle_groups: {by: job_type, limits: {plain: %d, \"*\": %d}}\n", r.settings.groups["plain"], r.settings.groups["*"])
			}
		}
		fmt.Fprintf(&c, "    job_types:\n      - {name: plain, %s}\n", handler)
		fmt.Fprintf(&c, "      - {name: stream, %s}\n", strings.NewReplacer("exec", "stream", "]", ", stream]").Replace(handler))
		fmt.Fprintf(&c, "      - {name: brief, timeout: 1s, %s}\n", handler)
		fmt.Fprintf(&c, "      - {name: asked, %s, retry_%s}\n", handler, strings.Replace(handler, "]", ", decide]", 1))
		fmt.Fprintf(&c, "      - {name: sent, async: true, timeout: 3s, %s}\n", handler)
		fmt.Fprintf(&c, "      - {name: fragile, retry: {attempts: %d}, %s}\n", fragileAttempts, handler)
	}
	next := r.config + ".next"
	dbtest.OK(r.t, os.WriteFile(next, []byte(c.String()), 0o600))
	dbtest.OK(r.t, os.Rename(next, r.config)) // commands may read it at any time
}

// command returns a command of hipq that nothing ends but the proof.
func (r *round) command(args ...string) *exec.Cmd {
	config := r.config
	if r.ways != nil {
		config = r.ways[int(r.way.Add(1))%len(r.ways)]
	}
	c := exec.Command(r.bin.hipq, append(args, "--config", config)...)
	c.Env = append(os.Environ(), "HOME="+r.dir, "XDG_CACHE_HOME=", "HIPQ_MAIL=off") // jobs fail for good on purpose
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

// failed is a command's exit code with what it said.
type failed struct {
	args, said string
	code       int
}

func (f failed) Error() string { return fmt.Sprintf("hipq %s: exit %d: %s", f.args, f.code, f.said) }

// within is how long a command may take: 22 s and one more wait for a lock, plus its start and end on a busy machine.
const within = 40 * time.Second

// run runs a command and returns its output.
func (r *round) run(args ...string) (string, error) {
	var out, said bytes.Buffer
	c := r.command(args...)
	c.Stdout, c.Stderr = &out, &said
	began := time.Now()
	defer func() {
		if took := time.Since(began); took > within {
			r.violates("hipq %s took %s: %.400s", strings.Join(args, " "), took.Round(time.Millisecond), said.String())
		}
	}()
	wait, err := r.start(c)
	if err != nil {
		return "", failed{strings.Join(args, " "), err.Error(), exitKilled}
	}
	wait()
	r.complain(span{began, time.Now()}, strings.Join(args, " "), said.String())
	if !c.ProcessState.Success() {
		return out.String(), failed{strings.Join(args, " "), said.String(), c.ProcessState.ExitCode()}
	}
	return out.String(), nil
}

// exitKilled is the exit status of a process that a signal has ended.
const exitKilled = -1

// start starts a command. After wait, its ProcessState says how it ended.
func (r *round) start(c *exec.Cmd) (wait func(), err error) {
	if r.starter == nil {
		return func() { _ = c.Wait() }, c.Start()
	}
	return r.starter(c)
}

// blamed says whether a text names the round's cause.
func (r *round) blamed(text string) bool { return r.blames != nil && r.blames.MatchString(text) }

func (r *round) isDark() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dark
}

// inject notes a fault.
func (r *round) inject(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fault{
		Turn: r.turn.String(), Round: r.number, Seed: r.seed, At: time.Now().UTC().Truncate(time.Millisecond), What: fmt.Sprintf(format, args...),
	})
}

// violates notes what must not be.
func (r *round) violates(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over[fmt.Sprintf(format, args...)] = true
}

// complaint is what a command said within a time.
type complaint struct {
	span
	what string
}

// complain notes what a command said if none says so.
func (r *round) complain(when span, command, said string) {
	if r.never == nil || !r.never.MatchString(said) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complaints = append(r.complaints, complaint{when, fmt.Sprintf("%s hipq %s says %s", when.to.Format(time.TimeOnly), command, said)})
}

// neverSaid returns what commands said that ran beside no stall.
func (r *round) neverSaid() (bad []string) {
	for _, h := range r.complaints {
		if !slices.ContainsFunc(r.stalls, func(s span) bool { return h.from.Before(s.to) && s.from.Before(h.to) }) {
			bad = append(bad, h.what)
		}
	}
	return bad
}

// version is the engine's.
func (r *round) version() (version string) {
	if r.turn.engine == "galera" {
		return os.Getenv("HIPQ_TEST_VERSION")
	}
	query := "SELECT VERSION()"
	if r.driver == "sqlite" {
		query = "SELECT 'SQLite ' || sqlite_version()"
	}
	dbtest.OK(r.t, r.db.QueryRow(query).Scan(&version))
	return version
}

// each calls scan for each row of a query.
func (r *round) each(query string, scan func(*sql.Rows) error) error {
	return dbtest.Read(context.Background(), r.db, query, nil, scan)
}

// open counts the jobs that are not final.
func (r *round) open() (open int, err error) {
	for _, q := range queues {
		some := 0
		err = errors.Join(err, r.db.QueryRow("SELECT COUNT(*) FROM proof_"+q+" WHERE state <> 'final'").Scan(&some))
		open += some
	}
	return open, err
}

// live keeps workers and clients at work while harm runs, and one worker after that, then waits until every job is final.
// patience is how long jobs may take after the harm.
func (r *round) live(size workload, patience time.Duration, harm func(context.Context)) {
	ctx, stop := context.WithCancel(r.t.Context())
	defer stop()
	feeding, full := context.WithCancel(ctx)
	watched := func() {}
	if r.turn.kind.name == "hosts" { // other faults hold up workers in ways that only the round's checks know
		r.idle, watched = r.watch(time.Time{})
	}
	working, rest := context.WithCancel(ctx)
	var crew, feeder, workers sync.WaitGroup
	workers.Go(func() { r.cron(working, size.ticks) })
	crew.Go(func() { r.answer(ctx) })
	crew.Go(func() { r.gauge(ctx) })
	for range max(1, size.clients) {
		feeder.Go(func() { r.feed(feeding, size) })
	}
	harm(ctx)
	over := time.Now()
	watched()
	rest()
	workers.Wait()
	r.stands(over)
	full()
	feeder.Wait()
	crew.Go(func() { r.cron(ctx, size.ticks) })
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
		if open, err := r.open(); err == nil && open == 0 {
			break
		}
	}
	stop()
	crew.Wait()
	r.bury()
}

// stands lets one worker work alone, and looks for a standstill once a lock and a poll have passed since the faults.
func (r *round) stands(over time.Time) {
	r.alone.Store(true)
	defer r.alone.Store(false)
	r.add(r.random(4), 2e6, 150) // more than a worker starts that waits for its polls
	calm := over.Add(r.lock() + dbtest.Poll)
	t := r.tick("work", "--linger", "--concurrency", "8", "--run-for", fmt.Sprintf("%.0fs", max(0, time.Until(calm).Seconds())+5))
	_, end := r.watch(calm, t)
	<-t.ended
	end()
}

// watch looks for a standstill of some workers from a time on.
func (r *round) watch(from time.Time, workers ...*tick) (w *dbtest.Watch, end func()) {
	w = dbtest.NewWatch(r.t, r.db, r.config)
	w.Ahead = r.ahead
	w.Excuse(from)
	for _, t := range workers {
		w.Hire(t.pid, t.cmd.Args[1:])
	}
	rest := w.Begin()
	return w, func() {
		bad, looks := rest()
		for _, b := range bad {
			r.violates("%s", b)
		}
		r.t.Logf("%d looks for a standstill", looks)
	}
}

// every is how often something happens: more seldom where most of it waits for minutes, so that many rounds run at once.
func (r *round) every(pause time.Duration) time.Duration {
	return when(r.turn.kind.byDefault, 4*time.Second, pause)
}

// lock is how long a lock lasts.
func (r *round) lock() time.Duration { return when(r.turn.kind.byDefault, time.Minute, lockFor) }
