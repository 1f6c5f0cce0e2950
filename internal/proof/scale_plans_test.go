package proof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

// scaleTraceVar names the file to which the traced program writes its statements, as JSON lines.
const scaleTraceVar = "HIPQ_PROOF_TRACE"

const scaleTracer = `package engine

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

var traceMutex sync.Mutex

func traced(query string, args []driver.NamedValue) func() {
	began := time.Now()
	return func() {
		traceMutex.Lock()
		defer traceMutex.Unlock()
		values := []any{}
		for _, a := range args {
			values = append(values, a.Value)
		}
		if f, err := os.OpenFile(os.Getenv("` + scaleTraceVar + `"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			io, _ := os.ReadFile("/proc/self/io")
			var read int // so far
			_, _ = fmt.Sscanf(string(io), "rchar: %d", &read)
			_ = json.NewEncoder(f).Encode(map[string]any{"query": query, "args": values, "ms": time.Since(began).Seconds() * 1000, "read": read})
			_ = f.Close()
		}
	}
}
`

// buildScale builds hipq that can write down its statements, "next" that has a further layout, and the handler "echo".
func buildScale(t *testing.T, dir string) map[string]string {
	t.Helper()
	root := dbtest.Must(filepath.Abs("../.."))(t)
	const prepared, begins = "internal/engine/prepared.go", "\tdefer c.watched(&err)\n\tif !c.keeps {"
	source := string(dbtest.Must(os.ReadFile(filepath.Join(root, prepared)))(t))
	dbtest.Require(t, strings.Count(source, begins) == 2, "%s has changed: the program can't be traced", prepared)
	next := map[string]string{}
	for _, engine := range []string{"mysql", "sqlite"} {
		next["schema/sql/"+engine+"/queue_002.sql"] = "ALTER TABLE {jobs} ADD COLUMN proof INT NOT NULL DEFAULT 0;\n"
		next["schema/sql/"+engine+"/instance_002.sql"] = "ALTER TABLE {activity} ADD COLUMN proof INT NOT NULL DEFAULT 0;\n"
	}
	programs := map[string]string{}
	for name, overlay := range map[string]map[string]string{"echo": nil, "next": next, "hipq": {
		prepared:                    strings.ReplaceAll(source, begins, "\tdefer c.watched(&err)\n\tdefer traced(query, args)()\n\tif !c.keeps {"),
		"internal/engine/traced.go": scaleTracer,
	}} {
		replace := map[string]string{}
		for path, text := range overlay {
			file := filepath.Join(dir, name+strings.ReplaceAll(path, "/", "+"))
			dbtest.OK(t, os.WriteFile(file, []byte(text), 0o600))
			replace[filepath.Join(root, path)] = file
		}
		file, pkg := filepath.Join(dir, name+".json"), "."
		if name == "echo" {
			pkg = "./internal/bench/echo"
		}
		dbtest.OK(t, os.WriteFile(file, dbtest.Must(json.Marshal(map[string]any{"Replace": replace}))(t), 0o600))
		programs[name] = filepath.Join(dir, name)
		c := exec.Command("go", "build", "-overlay", file, "-o", programs[name], pkg)
		c.Dir = root
		out, err := c.CombinedOutput()
		dbtest.Require(t, err == nil, "build %s: %v\n%s", name, err, out)
	}
	return programs
}

// executed is a statement of a command.
type executed struct {
	Query string  `json:"query"`
	Args  []any   `json:"args"`
	MS    float64 `json:"ms"`
	// Read is how many bytes the process has read until then.
	Read float64 `json:"read"`
}

// pages is how many pages of 4 KiB the latest command with this trace read.
func (l *large) pages(trace string) float64 {
	lines := bytes.Split(bytes.TrimSpace(dbtest.Must(os.ReadFile(trace))(l.t)), []byte("\n"))
	var last executed
	dbtest.OK(l.t, json.Unmarshal(lines[len(lines)-1], &last))
	return math.Round(last.Read / 4096)
}

var (
	// statementsIn finds the statements in a text of several. Those without a plan begin otherwise.
	statementsIn = regexp.MustCompile(`(?:'(?:[^'\\]|\\.|'')*'|[^';])+`)
	explainable  = regexp.MustCompile(`(?s)^\s*(?:SET STATEMENT .*? FOR )?((?:SELECT|WITH|UPDATE|DELETE|INSERT|REPLACE|\().*)`)
	// what differs between statements of one shape; words stay, because they are states and types
	valuesIn = regexp.MustCompile(`_?'(?:[^'\\]|\\.|'')*'|\b\d[\d.]*\b|\s+`)
	wordIn   = regexp.MustCompile(`^_?'[a-zA-Z]*'$`)
	listsIn  = regexp.MustCompile(`\?(, ?(\?|NULL))+|(\([^()]*\))(, ?\([^()]*\))+|( UNION ALL SELECT \?)+`)
)

// executed reads what commands executed, by shape: the statement without its values.
func (l *large) executed(traces string) map[string]executed {
	l.t.Helper()
	var text []byte
	for _, file := range dbtest.Must(filepath.Glob(traces))(l.t) {
		text = append(text, dbtest.Must(os.ReadFile(file))(l.t)...)
	}
	list := map[string]executed{}
	for line := range bytes.Lines(text) {
		var s executed
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		dbtest.OK(l.t, d.Decode(&s))
		for i, a := range s.Args {
			if n, ok := a.(json.Number); ok {
				s.Args[i] = dbtest.Must(n.Int64())(l.t)
			}
		}
		parts := []string{s.Query}
		if len(s.Args) == 0 {
			parts = statementsIn.FindAllString(s.Query, -1)
		}
		for _, part := range parts {
			if found := explainable.FindStringSubmatch(part); found != nil {
				values := valuesIn.ReplaceAllStringFunc(found[1], func(v string) string {
					if wordIn.MatchString(v) {
						return v
					}
					return map[bool]string{true: " ", false: "?"}[strings.TrimSpace(v) == ""]
				})
				list[listsIn.ReplaceAllString(values, "…")] = executed{found[1], s.Args, s.MS, s.Read}
			}
		}
	}
	return list
}

// plan returns which tables the database reads for a statement, and by which index. It is empty if the values leave nothing
// to read.
func (l *large) plan(s executed) string {
	l.t.Helper()
	rows, err := l.db.QueryxContext(l.t.Context(), map[string]string{"sqlite": "EXPLAIN QUERY PLAN ", "mysql": "EXPLAIN "}[l.driver]+s.Query, s.Args...)
	dbtest.Require(l.t, err == nil, "no plan: %v\n%.1000s", err, s.Query)
	defer rows.Close()
	var steps []string
	for rows.Next() {
		row := map[string]any{}
		dbtest.OK(l.t, rows.MapScan(row))
		if extra := fmt.Sprintf("%s", row["Extra"]); strings.Contains(extra, "mpossible") || strings.Contains(extra, "no matching row") {
			return ""
		}
		if row["detail"] == nil {
			row["detail"] = fmt.Sprintf("%s %s by %s", row["type"], row["table"], row["key"])
		}
		steps = append(steps, fmt.Sprint(row["detail"]))
	}
	dbtest.OK(l.t, rows.Err())
	return strings.Join(steps, "; ")
}

// comparePlans has both databases explain each statement that the commands executed.
func comparePlans(t *testing.T, pair [2]*large, traces [2]string) {
	t.Helper()
	found := [2]map[string]executed{pair[0].executed(traces[0]), pair[1].executed(traces[1])}
	all, same := maps.Clone(found[0]), 0
	maps.Copy(all, found[1])
	for shape, s := range all {
		var plans [2]string
		for side, l := range pair {
			if own, ok := found[side][shape]; ok {
				s = own
			}
			plans[side] = l.plan(s)
		}
		if plans[0] == plans[1] {
			same++
		} else if plans[0] != "" && plans[1] != "" {
			t.Errorf("beside %d due jobs the plan is\n%s\nand beside %d\n%s\n%.2000s", pair[0].due, plans[0], pair[1].due, plans[1], shape)
		}
	}
	pair[1].tell(map[string]any{"what": "plans", "statements": len(all), "same": same})
}
