package proof

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/hipq/hipq/internal/dbtest"
)

var pageFlag = flag.Bool("proof.page", false, "write the page")

const (
	pageFile     = "../../docs/explanation/reliability.md"
	campaignFile = "testdata/campaign.jsonl"
	foundFile    = "testdata/found.jsonl"
)

// sum is a row of the page: all turns of a kind that have ended.
type sum struct {
	kind
	Rounds, Faults, Jobs, Bad int
	Engines                   []string
	Notes                     []string
}

func (s sum) Title() string      { return s.title }
func (s sum) Must() string       { return s.must }
func (s sum) Name() string       { return s.name }
func (s sum) Versions() string   { return strings.Join(s.Engines, ", ") }
func (s sum) FaultsText() string { return thousands(s.Faults) }
func (s sum) JobsText() string   { return thousands(s.Jobs) }

// costs are what the turns of scale measured: rows of tables.
type costs struct {
	Small, Large            string
	Commands, Bytes, HoldUp []string
}

func costsOf(t *testing.T, notes []string) (c costs) {
	between := func(n []float64) string {
		if len(n) < 2 || n[0]+n[1] == 0 {
			return ""
		}
		return thousands(int(math.Round(n[0]))) + " → " + thousands(int(math.Round(n[1])))
	}
	for _, note := range notes {
		var m struct {
			Engine, What, Grows string
			Due                 any // of both queues for a command, otherwise of one
			MS, Rows            []float64
			Job                 int  `json:"scale_mail_bytes"`
			Entry               int  `json:"scale_activity_bytes"`
			Init                *int `json:"init_ms"`
			Enqueue             int  `json:"enqueue_longest_ms"`
			Work                int  `json:"work_longest_ms"`
			Insert              int  `json:"insert_longest_ms"`

			Jobs    int     `json:"scale_mail_rows"`
			Entries int     `json:"scale_activity_rows"`
			Total   float64 `json:"total_bytes"`
			Free    float64 `json:"free_bytes"`
		}
		dbtest.OK(t, json.Unmarshal([]byte(note), &m))
		both, _ := m.Due.([]any)
		one, _ := m.Due.(float64)
		switch {
		case len(both) == 2:
			c.Small, c.Large = thousands(int(both[0].(float64))), thousands(int(both[1].(float64)))
			c.Commands = append(c.Commands, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", m.What, m.Engine, between(m.MS), between(m.Rows), m.Grows))
		case m.Job > 0:
			c.Bytes = append(c.Bytes, fmt.Sprintf("| %s | %s | %s | %s | %.1f | %.1f | %d | %d |", m.Engine, thousands(int(one)),
				thousands(m.Jobs), thousands(m.Entries), m.Total/1e9, m.Free/1e9, m.Job, m.Entry))
		case m.Init != nil:
			c.HoldUp = append(c.HoldUp, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", m.What, m.Engine,
				thousands(*m.Init), thousands(m.Enqueue), thousands(m.Work), thousands(m.Insert)))
		}
	}
	return c
}

// find is a fault that the campaign has found, and the test that fails without its mend.
type find struct{ Turn, What, Test string }

// finds reads what was found. The tests must be there.
func finds(t *testing.T) (all []find) {
	for line := range strings.Lines(string(dbtest.Must(os.ReadFile(foundFile))(t))) {
		var f find
		dbtest.OK(t, json.Unmarshal([]byte(line), &f))
		out, err := exec.Command("grep", "-rl", "--include=*_test.go", "func "+f.Test+"(", "../..").CombinedOutput()
		dbtest.Ensure(t, err == nil, "%s names a test that isn't there: %s %s", foundFile, f.Test, out)
		all = append(all, f)
	}
	return all
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

// TestPage checks that the page tells the campaign as it was.
func TestPage(t *testing.T) {
	sums := map[string]*sum{}
	for _, k := range kinds {
		sums[k.name] = &sum{kind: k}
	}
	commits, seconds, turns, all := []string{}, 0.0, 0, 0
	for _, line := range strings.Split(strings.TrimSpace(string(dbtest.Must(os.ReadFile(campaignFile))(t))), "\n") {
		var e ending
		dbtest.OK(t, json.Unmarshal([]byte(line), &e))
		name, _, _ := strings.Cut(e.Ended, "/")
		s := sums[name]
		dbtest.Require(t, s != nil, "%s has a turn of an unknown kind: %s", campaignFile, line)
		s.Rounds, s.Faults, s.Jobs, s.Bad = s.Rounds+e.Rounds, s.Faults+e.Faults, s.Jobs+e.Jobs, s.Bad+e.Bad
		if !slices.Contains(s.Engines, e.Version) {
			s.Engines = append(s.Engines, e.Version)
		}
		if !slices.Contains(commits, e.Commit) {
			commits = append(commits, e.Commit)
		}
		s.Notes = append(s.Notes, e.Notes...)
		seconds += e.Seconds
		turns++
	}
	var rows []*sum
	for _, k := range kinds {
		for _, e := range k.turns {
			all += e.turns
		}
		if sums[k.name].Rounds > 0 {
			rows = append(rows, sums[k.name])
		}
	}
	var page strings.Builder
	dbtest.OK(t, dbtest.Must(template.ParseFiles("testdata/reliability.md.tmpl"))(t).Execute(&page, map[string]any{
		"Kinds": rows, "Commits": commits, "Scale": costsOf(t, sums["scale"].Notes), "Costlier": sums["scale"].Bad, "Finds": finds(t),
		"Hours": fmt.Sprintf("%.1f", seconds/3600), "Turns": turns, "All": all,
	}))
	if *pageFlag {
		dbtest.OK(t, os.WriteFile(pageFile, []byte(page.String()), 0o644))
	}
	is := string(dbtest.Must(os.ReadFile(pageFile))(t))
	dbtest.Ensure(t, is == page.String(), "%s isn't what the campaign says: run make proof", pageFile)
}
