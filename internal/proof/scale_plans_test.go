package proof

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

// traceVar names the file to which the traced program writes its statements.
const traceVar = "HIPQ_PROOF_TRACE"

const tracerSource = `package engine

import (
	"database/sql/driver"
	"encoding/json"
	"os"
	"sync"
	"time"
)

var traceMutex sync.Mutex

func traced(query string, args []driver.NamedValue) func() {
	began := time.Now()
	return func() {
		values := make([]any, len(args))
		for i, a := range args {
			values[i] = a.Value
			if b, ok := a.Value.([]byte); ok {
				values[i] = string(b)
			}
		}
		line, _ := json.Marshal(map[string]any{"query": query, "args": values, "ms": time.Since(began).Seconds() * 1000})
		traceMutex.Lock()
		defer traceMutex.Unlock()
		if f, err := os.OpenFile(os.Getenv("` + traceVar + `"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, _ = f.Write(append(line, '\n'))
			_ = f.Close()
		}
	}
}
`

// nextLayout are migration steps like those of the next layout.
var nextLayout = map[string]string{
	"queue_002.sql":    "ALTER TABLE {jobs} ADD COLUMN proof INT NOT NULL DEFAULT 0;\n",
	"instance_002.sql": "ALTER TABLE {activity} ADD COLUMN proof INT NOT NULL DEFAULT 0;\n",
}

// buildScale builds hipq, hipq that traces its statements, hipq with the next layout, and a stream handler.
func buildScale(t *testing.T, dir string) map[string]string {
	t.Helper()
	root := dbtest.Must(filepath.Abs("../.."))(t)
	const prepared, begins = "internal/engine/prepared.go", "\tdefer c.watched(&err)\n\tif !c.keeps {"
	source := string(dbtest.Must(os.ReadFile(filepath.Join(root, prepared)))(t))
	dbtest.Require(t, strings.Count(source, begins) == 2, "%s has changed: the program can't be traced", prepared)
	next := map[string]string{}
	for _, engine := range []string{"mysql", "sqlite"} {
		for name, text := range nextLayout {
			next["schema/sql/"+engine+"/"+name] = text
		}
	}
	programs := map[string]string{}
	for name, overlay := range map[string]map[string]string{
		"hipq": nil, "echo": nil, "next": next,
		"traced": {prepared: strings.ReplaceAll(source, begins, "\tdefer c.watched(&err)\n\tdefer traced(query, args)()\n\tif !c.keeps {"), "internal/engine/traced.go": tracerSource},
	} {
		replace := map[string]string{}
		for path, text := range overlay {
			file := filepath.Join(dir, name+strings.ReplaceAll(path, "/", "+"))
			dbtest.OK(t, os.WriteFile(file, []byte(text), 0o600))
			replace[filepath.Join(root, path)] = file
		}
		file := filepath.Join(dir, name+".json")
		dbtest.OK(t, os.WriteFile(file, dbtest.Must(json.Marshal(map[string]any{"Replace": replace}))(t), 0o600))
		programs[name] = filepath.Join(dir, name)
		pkg := map[bool]string{true: "./internal/bench/echo", false: "."}[name == "echo"]
		c := exec.Command("go", "build", "-overlay", file, "-o", programs[name], pkg)
		c.Dir = root
		out, err := c.CombinedOutput()
		dbtest.Require(t, err == nil, "build %s: %v\n%s", name, err, out)
	}
	return programs
}

// trace is the file for the statements of a command.
func (l *large) trace(o scaleOp) string {
	return filepath.Join(filepath.Dir(l.configs["work"]), strings.Map(func(c rune) rune {
		if c == '/' || c == ' ' {
			return '_'
		}
		return c
	}, fmt.Sprint(o.what, o.config, ".trace")))
}

// statement is one that a command executed.
type tracedStatement struct {
	Query string  `json:"query"`
	Args  []any   `json:"args"`
	MS    float64 `json:"ms"`
}

// statements reads what a command executed.
func (l *large) statements(o scaleOp) (list []tracedStatement) {
	l.t.Helper()
	text, err := os.ReadFile(l.trace(o))
	dbtest.OK(l.t, err)
	for line := range bytes.Lines(text) {
		var s tracedStatement
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		dbtest.OK(l.t, d.Decode(&s))
		for i, a := range s.Args {
			if n, ok := a.(json.Number); ok {
				if s.Args[i], err = n.Int64(); err != nil {
					s.Args[i], _ = n.Float64()
				}
			}
		}
		parts := []string{s.Query}
		if l.driver == "mysql" && len(s.Args) == 0 {
			parts = statementsIn(s.Query)
		}
		for _, p := range parts {
			if _, after, is := strings.Cut(p, " FOR "); is && strings.HasPrefix(p, "SET STATEMENT") {
				p = after
			}
			if sqlExplainable.MatchString(p) {
				list = append(list, tracedStatement{p, s.Args, s.MS})
			}
		}
	}
	return list
}

var sqlExplainable = regexp.MustCompile(`(?i)^\s*(SELECT|WITH|UPDATE|DELETE|INSERT|REPLACE|\()`)

// split cuts statements that were sent together.
func statementsIn(text string) (list []string) {
	begin, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"' || c == '`'):
			quote = c
		case quote == 0 && c == ';':
			list, begin = append(list, text[begin:i]), i+1
		}
	}
	return append(list, text[begin:])
}

var (
	sqlLiterals = regexp.MustCompile(`_?'(?:[^'\\]|\\.|'')*'|\b\d[\d.]*\b`)
	sqlWord     = regexp.MustCompile(`^'[a-zA-Z]*'$`)
	sqlSpaces   = regexp.MustCompile(`\s+`)
	// lists of values, and rows of those
	sqlRepeated = []*regexp.Regexp{
		regexp.MustCompile(`(\?|NULL)(, ?(\?|NULL))+`), regexp.MustCompile(`(\([^()]*\))(, ?\([^()]*\))+`),
		regexp.MustCompile(`(SELECT \?[^()]{0,40}?)( UNION ALL SELECT \?)+`),
	}
)

// shape is a statement without its values. Words stay, because they are states and types.
func shapeOf(query string) string {
	query = sqlLiterals.ReplaceAllStringFunc(query, func(l string) string {
		if sqlWord.MatchString(l) {
			return l
		}
		return "?"
	})
	query = sqlSpaces.ReplaceAllString(query, " ")
	for _, r := range sqlRepeated {
		query = r.ReplaceAllString(query, "$1…")
	}
	return query
}

// plan returns how the database executes a statement: which table by which index. It is empty if the values leave nothing
// to read.
func (l *large) plan(s tracedStatement) (plan string, err error) {
	prefix := "EXPLAIN QUERY PLAN "
	if l.driver == "mysql" {
		prefix = "EXPLAIN "
	}
	rows, err := l.db.QueryContext(l.t.Context(), prefix+s.Query, s.Args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	names, err := rows.Columns()
	dbtest.OK(l.t, err)
	var steps []string
	for rows.Next() {
		cells, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			into[i] = &cells[i]
		}
		dbtest.OK(l.t, rows.Scan(into...))
		cell := func(name string) string { return cells[slices.Index(names, name)].String }
		switch {
		case l.driver == "sqlite":
			steps = append(steps, cell("detail"))
		case strings.Contains(cell("Extra"), "mpossible") || strings.Contains(cell("Extra"), "no matching row"):
			return "", nil
		default:
			steps = append(steps, fmt.Sprintf("%s %s by %s", cell("type"), cell("table"), cell("key")))
		}
	}
	return strings.Join(steps, "; "), rows.Err()
}

// comparePlans has the databases explain each statement that the commands executed.
func comparePlans(t *testing.T, pair [2]*large, all []scaleOp) {
	found := [2]map[string]tracedStatement{{}, {}}
	for side, l := range pair {
		for _, o := range all {
			for _, s := range l.statements(o) {
				found[side][shapeOf(s.Query)] = s
			}
		}
	}
	same, changed, skipped := 0, 0, 0
	shapes := maps.Clone(found[0])
	maps.Copy(shapes, found[1])
	for _, of := range slices.Sorted(maps.Keys(shapes)) {
		var plans [2]string
		var err error
		for side, l := range pair {
			s, ok := found[side][of]
			if !ok {
				s = shapes[of]
			}
			if plans[side], err = l.plan(s); err != nil {
				break
			}
		}
		switch {
		case err != nil:
			t.Errorf("can't explain: %v\n%.1000s", err, shapes[of].Query)
		case plans[0] == "" || plans[1] == "":
			skipped++
		case plans[0] == plans[1]:
			same++
		default:
			changed++
			t.Errorf("another plan beside %d due jobs than beside %d: %s; before: %s\n%.2000s", pair[1].due, pair[0].due, plans[1], plans[0], of)
		}
	}
	scaleReport(t, map[string]any{
		"test": "scale", "engine": pair[0].driver, "what": "plans", "due": [2]int{pair[0].due, pair[1].due},
		"statements": len(shapes), "same": same, "changed": changed, "nothing_to_read": skipped,
	})
}

// slowest logs the slowest statement of a command and its plan.
func (l *large) slowest(o scaleOp) {
	l.t.Helper()
	list := l.statements(o)
	if len(list) == 0 {
		return
	}
	s := slices.MaxFunc(list, func(a, b tracedStatement) int { return int(1000 * (a.MS - b.MS)) })
	plan, err := l.plan(s)
	l.t.Logf("its slowest statement took %.1f ms: %.3000s\n%v\nplan: %s %v", s.MS, s.Query, s.Args, plan, err)
}
