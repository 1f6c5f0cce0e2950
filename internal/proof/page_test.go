package proof

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/hipq/hipq/internal/dbtest"
)

var pageFlag = flag.Bool("proof.page", false, "write the pages")

const (
	pagesFolder  = "../../docs/explanation"
	campaignFile = "testdata/campaign.jsonl"
	foundFile    = "testdata/found.jsonl"
	othersFile   = "testdata/others.jsonl"
	trialsFile   = "testdata/mutants.jsonl"
	mutantsFile  = "../crash/mutants.sh"
)

func (k kind) Title() string { return k.title }
func (k kind) Must() string  { return k.must }
func (k kind) Name() string  { return k.name }

// sum is a row of the page: the turns of a kind on an engine that have ended.
type sum struct {
	kind
	Engine                     string
	Turns, Short, All          int
	faults, jobs               int
	Violations                 int
	versions, commits, growths []string
}

func (s sum) Faults() string  { return when(s.faults > 0 && !s.operations, thousands(s.faults), "–") }
func (s sum) Jobs() string    { return when(s.jobs > 0, thousands(s.jobs), "–") }
func (s sum) Commits() string { return "`" + strings.Join(s.commits, "`, `") + "`" }
func (s sum) Ended() string {
	return fmt.Sprintf("%d of %d", s.Turns, s.All) + when(s.Short > 0, fmt.Sprintf(", and %d short", s.Short), "")
}

var number = regexp.MustCompile(`\d+(\.\d+)+`)

// Versions names the engine as its maker does: MariaDB 10.11.19.
func (s sum) Versions() string {
	name := map[string]string{
		"sqlite": "SQLite %s", "mariadb": "MariaDB %s", "galera": "MariaDB %s with Galera", "mysql": "MySQL %s", "group": "MySQL %s with Group Replication",
	}[s.Engine]
	return fmt.Sprintf(name, strings.Join(s.versions, ", "))
}

// growth has rows of what grew in soaks: of each kind of measure, what grew fastest in a turn.
func (s sum) growth() (rows []string) {
	for _, kind := range slices.Sorted(maps.Keys(perHour)) {
		fastest, row := math.Inf(-1), ""
		for _, note := range s.growths {
			var mean, slope, deviation float64
			name, values, _ := strings.Cut(note, ": ")
			_, err := fmt.Sscanf(values, "%g, per hour %g ± %g", &mean, &slope, &deviation)
			if err == nil && strings.HasPrefix(name, kind) && slope-3*deviation > fastest {
				fastest = slope - 3*deviation
				row = fmt.Sprintf("| %s | %s | %s | %s ± %s | %s | %s |", strings.ReplaceAll(name, "proof_", "hipq_"), s.Versions(), whole(mean), whole(slope), whole(deviation),
					whole(fastest), whole(perHour[kind]))
			}
		}
		if row != "" {
			rows = append(rows, row)
		}
	}
	return rows
}

func whole(n float64) string {
	return when(n <= -0.5, "−", "") + thousands(int(math.Abs(math.Round(n))))
}

// costs are what the turns of scale measured: rows of tables.
type costs struct {
	Small, Large            string
	Commands, Bytes, HoldUp []string
	// Finished is what a job with three entries takes on an engine, in kB; Fortnight 100,000 of them a day, in GB.
	Finished, Fortnight map[string]string
}

func costsOf(t *testing.T, notes []string) (c costs) {
	between := func(n []float64) string {
		if len(n) < 2 || n[0]+n[1] == 0 {
			return ""
		}
		return thousands(int(math.Round(n[0]))) + " → " + thousands(int(math.Round(n[1])))
	}
	reasons := map[string]string{}
	c.Finished, c.Fortnight = map[string]string{}, map[string]string{}
	for _, op := range scaleOps() {
		reasons[op.what] = op.grows
	}
	for _, note := range notes {
		var m struct {
			Engine, What string
			Due          any // of both queues for a command, otherwise of one
			MS, Rows     []float64
			Job          int  `json:"scale_mail_bytes"`
			Entry        int  `json:"scale_activity_bytes"`
			Init         *int `json:"init_ms"`
			Enqueue      int  `json:"enqueue_longest_ms"`
			Work         int  `json:"work_longest_ms"`
			Insert       int  `json:"insert_longest_ms"`

			Jobs    int     `json:"scale_mail_rows"`
			Entries int     `json:"scale_activity_rows"`
			Total   float64 `json:"total_bytes"`
		}
		dbtest.OK(t, json.Unmarshal([]byte(note), &m))
		m.Engine = map[string]string{"sqlite": "SQLite", "mariadb": "MariaDB"}[m.Engine]
		both, _ := m.Due.([]any)
		one, _ := m.Due.(float64)
		switch {
		case len(both) == 2:
			c.Small, c.Large = thousands(int(both[0].(float64))), thousands(int(both[1].(float64)))
			c.Commands = append(c.Commands, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", m.What, m.Engine, between(m.MS), between(m.Rows), reasons[m.What]))
		case m.Job > 0:
			c.Bytes = append(c.Bytes, fmt.Sprintf("| %s | %s | %s | %s | %.1f | %d | %d |", m.Engine, thousands(int(one)), thousands(m.Jobs), thousands(m.Entries), m.Total/1e9, m.Job, m.Entry))
			size := float64(m.Job + 3*m.Entry) // the last one, beside the long queue, counts
			c.Finished[m.Engine], c.Fortnight[m.Engine] = fmt.Sprintf("%.1f", size/1e3), fmt.Sprintf("%.1f", size*14*1e5/1e9)
		case m.Init != nil:
			c.HoldUp = append(c.HoldUp, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", m.What, m.Engine,
				thousands(*m.Init), thousands(m.Enqueue), thousands(m.Work), thousands(m.Insert)))
		}
	}
	return c
}

// other is a turn of .ci/others; of several turns, what they have together.
type other struct {
	Queue, Settings, Version, MariaDB                   string
	Jobs, Lost, Failed, Stuck, Doubled, Overlaps, Exits int
	Again                                               map[string][]*float64 // nil if the job didn't run again
	Waits                                               []float64             // the median and the longest
}

// After is when the jobs of killed processes ran again: the median and the longest.
func (o other) After(killed string) string {
	var times []float64
	for _, seconds := range o.Again[killed] {
		if seconds != nil {
			times = append(times, *seconds)
		}
	}
	if len(times) == 0 {
		return "–"
	}
	slices.Sort(times)
	return fmt.Sprintf("%.0f, %.0f s", times[len(times)/2], times[len(times)-1])
}

func (o other) Wait() string { return fmt.Sprintf("%.0f, %.0f s", o.Waits[0], o.Waits[1]) }

func others(t *testing.T) (all []*other) {
	for line := range strings.Lines(string(dbtest.Must(os.ReadFile(othersFile))(t))) {
		var o other
		dbtest.OK(t, json.Unmarshal([]byte(line), &o))
		n := slices.IndexFunc(all, func(before *other) bool { return before.Queue == o.Queue && before.Settings == o.Settings })
		if n < 0 {
			all = append(all, &o)
			continue
		}
		s := all[n]
		s.Jobs, s.Lost, s.Failed, s.Stuck = s.Jobs+o.Jobs, s.Lost+o.Lost, s.Failed+o.Failed, s.Stuck+o.Stuck
		s.Doubled, s.Overlaps, s.Exits = s.Doubled+o.Doubled, s.Overlaps+o.Overlaps, s.Exits+o.Exits
		for killed, times := range o.Again {
			s.Again[killed] = append(s.Again[killed], times...)
		}
		s.Waits[0], s.Waits[1] = max(s.Waits[0], o.Waits[0]), max(s.Waits[1], o.Waits[1])
	}
	return all
}

// find is a fault that the campaign has found, and the test that fails without its mend.
// Commit is the one that failed, since the campaign runs on one.
type find struct{ Turn, Commit, What, Test string }

// finds reads what was found. The tests must be there, unless the campaign itself was wrong.
func finds(t *testing.T) (all []find) {
	for line := range strings.Lines(string(dbtest.Must(os.ReadFile(foundFile))(t))) {
		var f find
		dbtest.OK(t, json.Unmarshal([]byte(line), &f))
		dbtest.Ensure(t, f.What != "", "%s doesn't say what failed in %s on %s", foundFile, f.Turn, f.Commit)
		out, err := exec.Command("grep", "-rl", "--include=*_test.go", "func "+f.Test+"(", "../..").CombinedOutput()
		dbtest.Ensure(t, err == nil || f.Test == "", "%s names a test that isn't there: %s %s", foundFile, f.Test, out)
		all = append(all, f)
	}
	return all
}

// mutant is a planted bug. Turn has found it, after so many seconds; otherwise Tried have not, and Why says what they lack.
type mutant struct {
	Name, Turn, Tried, Why string
	Seconds                int
}

// mutants reads what the campaign made of each planted bug, in their order. It has not tried all.
func mutants(t *testing.T) (all, found, missed []*mutant) {
	of, isSound := map[string]*mutant{"": {}}, map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^(?:mutant|rule) (\w+)`).FindAllStringSubmatch(string(dbtest.Must(os.ReadFile(mutantsFile))(t)), -1) {
		all = append(all, &mutant{Name: match[1]})
		of[match[1]] = all[len(all)-1]
	}
	for line := range strings.Lines(string(dbtest.Must(os.ReadFile(trialsFile))(t))) {
		var trial struct {
			Mutant, Turn, Violation, Why string
			Seconds                      int
		}
		dbtest.OK(t, json.Unmarshal([]byte(line), &trial))
		m := of[trial.Mutant]
		dbtest.Require(t, m != nil, "%s has no %s", mutantsFile, trial.Mutant)
		switch {
		case trial.Why != "":
			m.Why = trial.Why
		case trial.Mutant == "":
			isSound[trial.Turn] = trial.Violation == ""
		case trial.Violation != "":
			m.Turn, m.Seconds = trial.Turn, trial.Seconds
		default:
			m.Tried += ", `" + trial.Turn + "`"
		}
	}
	for _, m := range all {
		if m.Turn != "" {
			dbtest.Ensure(t, isSound[m.Turn], "%s finds %s, and %s doesn't say that it is green without", m.Turn, m.Name, trialsFile)
			found = append(found, m)
		} else if m.Tried != "" {
			m.Tried = m.Tried[2:]
			missed = append(missed, m)
		}
	}
	return all, found, missed
}

// TestWorkflow checks that the weekly workflow runs each kind.
func TestWorkflow(t *testing.T) {
	workflow := string(dbtest.Must(os.ReadFile("../../.github/workflows/proof.yml"))(t))
	_, list, _ := strings.Cut(workflow, "kind: [")
	list, _, _ = strings.Cut(list, "]")
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	runs := strings.Split(list, ", ")
	slices.Sort(runs)
	slices.Sort(names)
	dbtest.Ensure(t, slices.Equal(runs, names), "the workflow runs %v, want %v", runs, names)
}

// thousands writes a number as the pages do: 10,000.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// TestPage checks that the pages tell the campaign as it was.
func TestPage(t *testing.T) {
	var rows []*sum
	ofTurn := map[string]*sum{}
	for _, turn := range turns() {
		n := slices.IndexFunc(rows, func(s *sum) bool { return s.name == turn.kind.name && s.Engine == turn.engine })
		if n < 0 {
			n, rows = len(rows), append(rows, &sum{kind: turn.kind, Engine: turn.engine})
		}
		rows[n].All++
		ofTurn[turn.String()] = rows[n]
	}
	all, ended, seconds := len(ofTurn), 0, 0.0
	var scale, growth, commits []string
	for line := range strings.Lines(string(dbtest.Must(os.ReadFile(campaignFile))(t))) {
		var e ending
		dbtest.OK(t, json.Unmarshal([]byte(line), &e))
		s := ofTurn[e.Ended]
		dbtest.Require(t, s != nil, "%s has a turn that isn't there, or has it twice: %s", campaignFile, e.Ended)
		delete(ofTurn, e.Ended)
		s.Turns, s.Short, ended = s.Turns+btoi(!e.Short), s.Short+btoi(e.Short), ended+btoi(!e.Short)
		s.faults, s.jobs, s.Violations, commits = s.faults+e.Faults, s.jobs+e.Jobs, s.Violations+e.Bad, added(commits, e.Commit)
		s.versions, s.commits = added(s.versions, number.FindString(e.Version)), added(s.commits, e.Commit)
		switch seconds += e.Seconds; s.name {
		case "soak":
			s.growths = append(s.growths, e.Notes...)
		case "scale":
			scale = append(scale, e.Notes...)
		}
	}
	rows = slices.DeleteFunc(rows, func(s *sum) bool { return s.Turns+s.Short == 0 })
	for _, s := range rows {
		growth = append(growth, s.growth()...)
	}
	planted, bitten, missed := mutants(t)
	for _, name := range []string{"reliability.md", "performance.md"} {
		var page strings.Builder
		dbtest.OK(t, dbtest.Must(template.ParseFiles("testdata/"+name+".tmpl"))(t).Execute(&page, map[string]any{
			"Kinds": kinds, "Rows": rows, "Scale": costsOf(t, scale), "Growths": growth, "Finds": finds(t), "Others": others(t),
			"Planted": planted, "Bitten": bitten, "Missed": missed, "Tried": len(bitten) + len(missed), "Hours": fmt.Sprintf("%.1f", seconds/3600),
			"Turns": ended, "Short": all - len(ofTurn) - ended, "All": all, "Commits": commits,
		}))
		file := filepath.Join(pagesFolder, name)
		if *pageFlag {
			dbtest.OK(t, os.WriteFile(file, []byte(page.String()), 0o644))
		}
		is := string(dbtest.Must(os.ReadFile(file))(t))
		dbtest.Ensure(t, is == page.String(), "%s isn't what the campaign says: run .ci/proof --page", file)
	}
}

// added is the list with a text that it has once.
func added(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}
