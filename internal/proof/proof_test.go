// Package proof is the campaign of faults behind docs/explanation/reliability.md. A turn injects one kind of fault on one
// engine, in rounds. Each round has an instance of hipq of its own, real processes, and checks that see only tables, output
// and what handlers wrote to disk. make proof runs all turns.
package proof

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

var (
	turnFlag   = flag.String("proof.turn", "", "the turn to run: KIND/ENGINE/NUMBER")
	roundFlag  = flag.Int("proof.round", 0, "only this round of the turn, to repeat a fault (0: all)")
	forFlag    = flag.Duration("proof.for", 0, "how long the turn lasts (0: until it is complete)")
	listFlag   = flag.Bool("proof.list", false, "print the turns, and do nothing else")
	ledgerFlag = flag.String("proof.ledger", "", "the file to which the turn appends its faults")
)

// kind is a kind of fault: a row of the page.
type kind struct {
	name, title string
	// operations says that its faults are none, but operations.
	operations bool
	// must says what must be 0.
	must string
	// turns are the engines, each with the number of turns on it. faults is how many each turn injects.
	turns  []engineTurns
	faults int
	// rounds, if not 0, is how many rounds each turn has instead. beside is how many run at once, because they mostly wait.
	rounds, beside int
	// jobs, if not 0, is how many jobs each turn has instead.
	jobs int
	// byDefault leaves most settings of workers and retries to hipq, and has jobs of minutes.
	byDefault bool
	// round injects the faults of one round.
	round func(*round)
}

// turnMost is how long a turn may take to be complete.
const turnMost = 20 * time.Minute

type engineTurns struct {
	engine string
	turns  int
}

// kinds is the campaign. Those that need Linux on x86-64 are added by calls, clocks, powercut, resources and soak.
var kinds = []kind{
	{
		name: "signals", title: "SIGKILL, SIGSTOP and SIGTERM of workers, guards and handlers, at random",
		must: "lost, doubled, overlaps, over a limit, over a rate", faults: 1500,
		turns: []engineTurns{{"sqlite", 2}, {"mariadb", 2}}, round: signals,
	},
	{
		name: "defaults", title: "SIGKILL, SIGSTOP for up to 2 minutes and SIGTERM with the default lock of 60 s, grace of 10 s and delay of retries; " +
			"handlers of up to 2 minutes, of which half ignore SIGTERM",
		must: "lost, doubled, overlaps, over a limit, over a rate", rounds: 5, beside: 5, byDefault: true,
		turns: []engineTurns{{"sqlite", 1}, {"mariadb", 1}}, round: defaults,
	},
	{
		name: "servers", title: "kill -9 and restart of MariaDB and MySQL",
		must: "acknowledged and missing; lost, doubled, overlaps, over a limit", faults: 125,
		turns: []engineTurns{{"mariadb", 1}, {"mysql", 1}}, round: servers,
	},
	{
		name: "packets", title: "The connection cut at every query of every command: before it, in its answer, and with the answer lost",
		must: "lost, doubled, a false report of success or failure", rounds: len(talks), beside: 8,
		turns: []engineTurns{{"mariadb", 5}, {"mysql", 1}}, round: packets,
	},
	{
		name: "outages", title: "The database away or silent for 1 s to 3 lock times, slow, read-only, refusing rows as if the disk were full, " +
			"out of connections, in a storm of deadlocks; open transactions and locks of applications on every table. On SQLite: another process writes, or reads for long",
		must: "a `hipq work` that doesn't end, jobs that still wait a minute after the fault; lost, doubled, overlaps", faults: 467, beside: 8,
		turns: []engineTurns{{"mariadb", 3}, {"mysql", 1}, {"sqlite", 1}}, round: outagesOf,
	},
	{
		name: "galera", title: "A node of three in a Galera cluster killed, stopped, cut off from the others, slow or read-only",
		must: "lost, doubled, a deadlock or lock timeout of the server that reaches a user", faults: 85,
		turns: []engineTurns{{"galera", 2}}, round: galera,
	},
	{
		name: "group", title: "The primary of three members with MySQL Group Replication killed or stopped",
		must: "lost, doubled, a deadlock or lock timeout of the server that reaches a user", faults: 30,
		turns: []engineTurns{{"group", 1}}, round: group,
	},
	{
		name: "features", operations: true, title: "None: operations with all features at random, compared with a model of the queue",
		must: "differences in outputs, exit codes, tables, activity and order", jobs: 250_000,
		turns: []engineTurns{{"sqlite", 2}, {"mariadb", 2}}, round: features,
	},
	{
		name: "scale", title: "None: commands beside a long queue and a short one",
		must: "costs that grow with the queue without a known reason, plans that differ", rounds: 1,
		turns: []engineTurns{{"sqlite", 1}, {"mariadb", 1}}, round: longQueue,
	},
}

// turn is a part of the campaign that runs at once.
type turn struct {
	kind   kind
	engine string
	number int
}

func (u turn) String() string { return fmt.Sprintf("%s/%s/%d", u.kind.name, u.engine, u.number) }

// turns is the campaign in its order.
func turns() (all []turn) {
	for _, k := range kinds {
		for _, e := range k.turns {
			for n := range e.turns {
				all = append(all, turn{k, e.engine, n + 1})
			}
		}
	}
	return all
}

// driver is the name of the engine's driver.
func (u turn) driver() string {
	if u.engine == "sqlite" {
		return "sqlite"
	}
	return "mysql"
}

// TestMain prints the campaign for .ci/proof.
func TestMain(m *testing.M) {
	flag.Parse()
	if *listFlag {
		for _, turn := range turns() {
			fmt.Println(turn)
		}
		return
	}
	os.Exit(m.Run())
}

// TestTurn runs one turn: rounds, until it has injected its faults or its time is over. The same turn makes the same choices,
// but processes and signals have a timing of their own.
func TestTurn(t *testing.T) {
	dbtest.SkipIf(t, *turnFlag == "", "-proof.turn says which")
	found := false
	defer func() { dbtest.Ensure(t, found, "there is no turn %s", *turnFlag) }()
	for _, turn := range turns() {
		if ok, err := path.Match(*turnFlag, turn.String()); err != nil || !ok {
			continue
		}
		found = true
		t.Run(turn.String(), func(t *testing.T) { turn.run(t) })
	}
}

func (u turn) run(t *testing.T) {
	bin, began, most, end := build(t), time.Now(), cmp.Or(*forFlag, turnMost), ending{Ended: u.String(), Commit: os.Getenv("HIPQ_PROOF_COMMIT")}
	var mu sync.Mutex
	next, failed := max(1, *roundFlag), false
	// take returns the next round, and whether there is one.
	take := func() (n int, is bool) {
		mu.Lock()
		defer mu.Unlock()
		n, next = next, next+1
		is = !failed && time.Since(began) < most && (n <= u.kind.rounds || u.kind.rounds == 0 && (end.Faults < u.kind.faults || end.Jobs < u.kind.jobs))
		return n, is && (*roundFlag == 0 || n == *roundFlag)
	}
	play := func(n int) (judged bool) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := newRound(t, u, n, bin)
			r.until = began.Add(most)
			u.kind.round(r)
			bad := r.judge()
			if t.Failed() && len(bad) == 0 {
				bad = []string{"the test's output says what"}
			}
			for _, f := range r.faults {
				f.Found = bad
				record(t, f)
			}
			mu.Lock()
			defer mu.Unlock()
			end.Rounds, end.Faults, end.Jobs, end.Bad = end.Rounds+1, end.Faults+len(r.faults), end.Jobs+len(r.asks)+r.more, end.Bad+len(bad)
			end.Version, end.Notes, judged = r.version(), append(end.Notes, r.notes...), true
			t.Logf("%.0f s: %d faults and %d jobs so far", time.Since(began).Seconds(), end.Faults, end.Jobs)
		})
		return judged
	}
	var all sync.WaitGroup
	for range max(1, u.kind.beside) {
		all.Go(func() {
			for n, is := take(); is; n, is = take() {
				if !play(n) {
					mu.Lock()
					failed = true
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if failed || *roundFlag > 0 {
		dbtest.Ensure(t, failed || end.Rounds == 1, "the turn has no round %d", *roundFlag)
		return
	}
	end.Seconds = time.Since(began).Seconds()
	early := end.Rounds < u.kind.rounds || end.Faults < u.kind.faults || end.Jobs < u.kind.jobs
	end.Short = early && *forFlag > 0
	if *forFlag == 0 && (early || end.Seconds > turnMost.Seconds()) {
		t.Errorf("only %d rounds, %d faults and %d jobs in %.0f s: this machine is too slow or too busy", end.Rounds, end.Faults, end.Jobs, end.Seconds)
		if end.Bad == 0 { // with a violation the turn counts, so that the page shows it until somebody removes its file
			return
		}
	}
	record(t, end)
}

// seed makes the choices of a round repeatable. It depends on nothing but the round's name.
func seed(u turn, round int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", u, round)
	return h.Sum64()
}

// random is a separate source for each actor of a round, so that their timing doesn't change each other's choices.
func (r *round) random(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, actor)) }

// fault is a line of the proof's ledger: what was injected, and what was found at the end of its round.
type fault struct {
	Turn  string    `json:"turn"`
	Round int       `json:"round"`
	Seed  uint64    `json:"seed"`
	At    time.Time `json:"at"`
	What  string    `json:"what"`
	Found []string  `json:"found"`
}

// ending is the ledger's last line of a turn. A turn without one has not ended, and runs again.
type ending struct {
	Ended   string  `json:"ended"`
	Rounds  int     `json:"rounds"`
	Faults  int     `json:"faults"`
	Jobs    int     `json:"jobs"`
	Bad     int     `json:"violations"`
	Seconds float64 `json:"seconds"`
	Version string  `json:"version"`
	Commit  string  `json:"commit"`
	// Short says that its time was over before it was complete.
	Short bool `json:"short,omitempty"`
	// Notes are what a turn measured.
	Notes []string `json:"notes,omitempty"`
}

// record appends lines to the ledger.
func record(t *testing.T, lines ...any) {
	t.Helper()
	if *ledgerFlag == "" {
		return
	}
	f := dbtest.Must(os.OpenFile(*ledgerFlag, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644))(t)
	defer f.Close()
	for _, l := range lines {
		dbtest.OK(t, json.NewEncoder(f).Encode(l))
	}
}
