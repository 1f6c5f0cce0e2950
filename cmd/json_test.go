package cmd

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/doctor"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/job"
)

// documents are the objects that commands print, in the order of the page.
var documents = []struct {
	heading string
	about   string
	object  any
}{
	{"Job: `jobs`, `failures --jobs`, `run`", "", job.JSON{}},
	{"Find: `find`", "", foundJob{}},
	{"Kind of failure: `failures`", "One object for each kind.", failureKind{}},
	{
		"Additional fields of `show`", "`show` prints a job with these additional fields. Only the last attempt that reported " +
			"progress has it.",
		shown{},
	},
	{"Entry: `activity`", "", activity.JSON{}},
	{"Reasons: `why`", "", explained{}},
	{
		"Counts: `status`", "The counts of jobs are those of the table: see [status](../explanation/lifecycle.md#the-status).",
		statusReport{},
	},
	{"New job: `enqueue`", "", enqueued{}},
	{"New jobs: `enqueue --ndjson`", "", counts{}},
	{"Changed job: `cancel`, `dismiss`, `reschedule`, `retry`", "One object for each job.", change{}},
	{"Answer: `complete`, `fail`", "", answered{}},
	{"Queue: `queues pause`, `queues resume`", "One object for each queue.", queuePaused{}},
	{"Queue: `queues`", "One object for each queue.", listedQueue{}},
	{"Schedule: `schedules`", "One object for each schedule.", scheduled{}},
	{"Schedule: `schedules pause`, `schedules resume`", "One object for each schedule.", schedulePaused{}},
	{"Job of a schedule: `schedules run`", "One object for each schedule.", scheduleRun{}},
	{"Worker: `work`", "", worked{}},
	{
		"Metrics: `monitor`", "Where a type is `the counts`, the path stands for the [fields of the counts](#counts-of-the-metrics).",
		monitored{},
	},
	{"Missed hour: `monitor --missing`", "One object for each hour.", missed{}},
	{"Check: `monitor --check`", "One object, with every exit code.", judged{}},
	{"Counts of the metrics", "", monitor.Counts{}},
	{
		"Deleted rows: `purge`", "One object for each kind of rows, for each hour of activity that was kept, and for each kind " +
			"that is left after a\nsignal or `--max-time`.",
		purged{},
	},
	{"Tables: `init`", "", initialised{}},
	{"Findings: `config check`", "", checked{}},
	{"Check: `doctor`", "One object for each check.", doctor.Finding{}},
	{"Failure: every command", "", struct {
		Error failure `json:"error"`
	}{}},
}

// furtherReading links phrases of comments, by type and field.
var furtherReading = map[string]struct{ phrase, page string }{
	"job.ProgressJSON.Progress": {"reported", "handlers.md"},
	"job.JSON.Shard":            {"shard", "../explanation/order.md#shards"},
	"admin.Failure.Fingerprint": {"hex digits", "commands.md#filters"},
	"cmd.queueStatus.Shards":    {"shards", "../explanation/order.md#shards"},
	"cmd.initialised.Divided":   {"new division", "../explanation/order.md#shards"},
	"monitor.Report.Trends":     {"changes for the worse", "../explanation/activity.md#hours-and-windows"},
	"monitor.Finding.What":      {"ids may run out", "schema.md#what-a-row-may-be"},
	"doctor.Finding.Check":      {"name of the check", "../howto/doctor.md"},
}

// TestJSONReference checks that docs/reference/json.md has exactly the fields of each object, with their types and
// comments. After a change, run:
//
//	go test ./cmd -run TestJSONReference -update
func TestJSONReference(t *testing.T) {
	isUpToDate(t, "../docs/reference/json.md", "\n## "+documents[0].heading+"\n", jsonReference(t))
}

func jsonReference(t *testing.T) string {
	var page strings.Builder
	comments, linked := fieldComments{}, map[string]bool{}
	for _, d := range documents {
		fmt.Fprintf(&page, "\n## %s\n\n", d.heading)
		if d.about != "" {
			page.WriteString(d.about + "\n\n")
		}
		page.WriteString("| field | type | meaning |\n|---|---|---|\n")
		table := jsonTable{t: t, comments: comments, linked: linked}
		table.fieldsOf("", reflect.TypeOf(d.object))
		for _, f := range table.fields {
			fmt.Fprintf(&page, "| `%s` | %s | %s |\n", strings.Join(f.paths, "`, `"), f.kind, f.about)
		}
	}
	for name, link := range furtherReading {
		dbtest.Ensure(t, linked[name], "the comment of %s doesn't say %q, which links to %s", name, link.phrase, link.page)
	}
	return page.String()
}

// jsonTable has the fields of a document. A field of a type that occurs at several paths is one row.
type jsonTable struct {
	t        *testing.T
	comments fieldComments
	fields   []*jsonField
	linked   map[string]bool
}

type jsonField struct {
	object reflect.Type
	name   string // in Go
	paths  []string
	kind   string
	about  string
}

func (j *jsonTable) fieldsOf(under string, object reflect.Type) {
	for i := range object.NumField() {
		f := object.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && f.Type == reflect.TypeFor[monitor.Counts]() && under != "":
			j.add(under+"*", "the counts", object, nil, f) // they have their own table
		case f.Anonymous && f.Type == reflect.TypeFor[job.JSON]() && object == reflect.TypeFor[shown]():
			// so do jobs
		case f.Anonymous && name == "":
			j.fieldsOf(under, f.Type)
		case !f.IsExported() || name == "-":
		default:
			more := ""
			if strings.Contains(options, "omitempty") {
				more = ", may be missing"
			}
			path, kind, inner := jsonType(under+name, f.Type, more)
			if object.Name() != "" {
				j.add(path, kind, object, inner, f)
			}
			if inner != nil {
				j.fieldsOf(path+".", inner)
			}
		}
	}
}

func (j *jsonTable) add(path, kind string, object, inner reflect.Type, f reflect.StructField) {
	for _, known := range j.fields {
		if known.object == object && known.name == f.Name && known.kind == kind {
			known.paths = append(known.paths, path)
			return
		}
	}
	about, name := j.comments.of(j.t, object, f.Name), object.String()+"."+f.Name
	if link, ok := furtherReading[name]; ok && strings.Contains(about, link.phrase) {
		about = strings.Replace(about, link.phrase, "["+link.phrase+"]("+link.page+")", 1)
		j.linked[name] = true
	}
	j.fields = slices.Insert(j.fields, j.before(inner), &jsonField{object, f.Name, []string{path}, kind, about})
}

// before is where an object's row belongs: above the rows of its fields, which another object of the type may have added.
func (j *jsonTable) before(inner reflect.Type) int {
	if inner != nil {
		if at := slices.IndexFunc(j.fields, func(f *jsonField) bool { return f.object == inner }); at >= 0 {
			return at
		}
	}
	return len(j.fields)
}

// jsonType completes the path of a field and names its type. inner is the struct whose fields are below the path.
func jsonType(path string, kind reflect.Type, more string) (full, name string, inner reflect.Type) {
	switch kind {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[engine.Time]():
		return path, "time" + more, nil
	case reflect.TypeFor[job.Time]():
		return path, "time or null", nil
	case reflect.TypeFor[json.RawMessage]():
		return path, "any" + more, nil
	}
	switch kind.Kind() {
	case reflect.Pointer:
		if more == "" {
			more = " or null"
		}
		return jsonType(path, kind.Elem(), more)
	case reflect.Struct:
		return path, "object" + more, kind
	case reflect.Slice:
		return jsonType(path+"[]", kind.Elem(), more)
	case reflect.String:
		return path, "string" + more, nil
	case reflect.Bool:
		return path, "bool" + more, nil
	case reflect.Int, reflect.Int64:
		return path, "integer" + more, nil
	case reflect.Float64:
		return path, "number" + more, nil
	default:
		panic(fmt.Sprint(path, " is a ", kind))
	}
}

// fieldComments are the comments in the source of packages, by package and then by type and field.
type fieldComments map[string]map[string]string

var (
	quoted    = regexp.MustCompile(`"([^" ]+)"`)
	flagLike  = regexp.MustCompile(`(?:\bhipq [a-z]+ )?--[a-z]+[a-z-]*(?:=\w+)?|\bhipq (?:init|monitor|schedules run)\b`)
	wordLike  = regexp.MustCompile(`\b[A-Z]\w*\b`)
	beginning = regexp.MustCompile(`^\w+ (?:is|are|has) `)
)

// of is the comment of a field as the page has it: without the field's name at its beginning, with the JSON names of
// other fields, and with "values" as code.
func (c fieldComments) of(t *testing.T, object reflect.Type, field string) string {
	path := object.PkgPath()
	if c[path] == nil {
		c[path] = readComments(t, filepath.Join("..", strings.TrimPrefix(path, "github.com/hipq/hipq")))
	}
	text := strings.Join(strings.Fields(c[path][object.Name()+"."+field]), " ")
	if text == "" {
		return ""
	}
	dbtest.Ensure(t, strings.HasPrefix(text, field+" "), "the comment of %s.%s doesn't begin with the field's name", object, field)
	text = beginning.ReplaceAllString(text, "")
	text = wordLike.ReplaceAllStringFunc(text, func(word string) string {
		if f, ok := object.FieldByName(word); ok && f.Tag.Get("json") != "" {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return "`" + name + "`"
		}
		return word
	})
	text = flagLike.ReplaceAllString(quoted.ReplaceAllString(text, "`$1`"), "`$0`")
	text = regexp.MustCompile(`\bnil\b`).ReplaceAllString(text, "null")
	return strings.ReplaceAll(strings.ToUpper(text[:1])+text[1:], "|", `\|`)
}

func readComments(t *testing.T, dir string) map[string]string {
	comments := map[string]string{}
	files := dbtest.Must(filepath.Glob(filepath.Join(dir, "*.go")))(t)
	for _, name := range slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		file := dbtest.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if object, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range object.Fields.List {
					for _, field := range namesOf(f) {
						comments[spec.Name.Name+"."+field] = f.Doc.Text()
					}
				}
			}
			return false
		})
	}
	return comments
}

// namesOf are the names of a field. An embedded one has that of its type.
func namesOf(f *ast.Field) []string {
	var names []string
	for _, name := range f.Names {
		names = append(names, name.Name)
	}
	if names != nil {
		return names
	}
	switch kind := f.Type.(type) {
	case *ast.Ident:
		return []string{kind.Name}
	case *ast.SelectorExpr:
		return []string{kind.Sel.Name}
	}
	return nil
}
