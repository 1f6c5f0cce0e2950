package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/hipq/hipq/internal/dbtest"
)

var update = flag.Bool("update", false, "write docs/reference/configuration.md and hipq.schema.json")

const referencePath = "../docs/reference/configuration.md"

// TestReference checks docs/configuration.md against the config, from its first table on. The keys come from shape, the
// bounds from the checker's messages, and the rest from the comments of the example. After changing any of these:
//
//	go test ./config -run TestReference -update
func TestReference(t *testing.T) {
	page, err := os.ReadFile(referencePath)
	do(t, err)
	head, _, ok := strings.Cut(string(page), "\n## "+headings[0].heading+"\n")
	dbtest.Require(t, ok, "where do the tables begin?")
	want := head + reference(t)
	if *update {
		if err := os.WriteFile(referencePath, []byte(want), 0o644); err != nil { //nolint:gosec // a page of the docs is for all
			t.Fatal(err)
		}
	}
	diff := diff(want, string(page))
	dbtest.Ensure(t, diff == "" || *update, "docs/reference/configuration.md is stale; write it by go test ./config -run TestReference -update:\n%s", diff)
}

// headings are the sections, in the order of the page.
var headings = []struct{ section, heading, about string }{
	{"shape", "The instance", ""},
	{"databaseSection", "`database`", ""},
	{"schema.TLS", "`database.tls`", ""},
	{"worker.Options", "`worker`", ""},
	{"activitySection", "`activity`", ""},
	{"metricsSection", "`metrics`", ""},
	{"monitorSection", "`monitor`", ""},
	{"purgeSection", "`purge`", ""},
	{"job.RetryPolicy", "`retry`", "Of the instance, a queue or a job type: the nearest wins, key by key."},
	{"monitor.Alert", "`alert`", "Of the instance."},
	{"partLimitsSection", "`error_rate`", "In an `alert`."},
	{"countLimitsSection", "`failed`, `backlog`, `dead_workers`, `missed_hours`", "In an `alert`."},
	{"timeLimitsSection", "`oldest_due`, `wait_p95`, `run_p95`, `no_tick_for`", "In an `alert`."},
	{"queueSection", "`queues`", "A list; each of them has these keys."},
	{"monitor.JobAlert", "`alert` of a queue or a job type", "The nearest wins, limit by limit."},
	{"job.ThrottleGroups", "`throttle_groups`", "Of a queue."},
	{"jobTypeSection", "`job_types`", "Of a queue: a list; each of them has these keys."},
	{"scheduleSection", "`schedules`", "A list; each of them has these keys."},
	{"handlerSection", "`handler`", "Of a job type."},
	{"HTTP", "`http`", "Of a `handler`."},
	{"handler.Limits", "`limits`", "Of a `handler` or a `retry_handler`."},
	{"retryHandlerSection", "`retry_handler`", "Of the instance, a queue or a job type: the nearest wins."},
}

func reference(t *testing.T) string {
	comments := exampleComments(t)
	paths := map[string][]string{}
	findSections("shape", reflect.TypeFor[shape](), nil, paths)
	var page strings.Builder
	for _, h := range headings {
		fmt.Fprintf(&page, "\n## %s\n\n", h.heading)
		if h.about != "" {
			page.WriteString(h.about + "\n\n")
		}
		page.WriteString("| key | value | default | what it does | variable, flag |\n|---|---|---|---|---|\n")
		path, ok := paths[h.section]
		dbtest.Require(t, ok, "there is no section %s", h.section)
		delete(paths, h.section)
		for _, f := range fieldsOf(sectionAt(path)) {
			key := f.Tag.Get("key")
			does, otherwise := comments.of(t, h.section, key)
			at := append(slices.Clone(path), key)
			value := form(t, at, f)
			checkDefault(t, at, value, otherwise)
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", key, inCell(value), inCell(otherwise), inCell(does), elsewhere(at))
		}
	}
	for section := range paths {
		t.Errorf("section %s has no heading", section)
	}
	return page.String()
}

// findSections records where each section first occurs.
func findSections(name string, t reflect.Type, path []string, found map[string][]string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	if _, ok := found[name]; !ok {
		found[name] = path
	}
	for _, f := range fieldsOf(t) {
		findSections(nameOf(f), f.Type, append(slices.Clone(path), f.Tag.Get("key")), found)
	}
}

// nameOf is the name of a field's section. Limits differ in their kinds of values.
func nameOf(f reflect.StructField) string {
	if limit := f.Tag.Get("limit"); limit != "" {
		return limit + "LimitsSection"
	}
	t := f.Type
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return strings.TrimPrefix(t.String(), "config.")
}

func fieldAt(path []string) (f reflect.StructField) {
	t := reflect.TypeFor[shape]()
	for _, key := range path {
		f, _ = fieldOf(t, key)
		for t = f.Type; t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice; {
			t = t.Elem()
		}
	}
	return f
}

func sectionAt(path []string) reflect.Type {
	if len(path) == 0 {
		return reflect.TypeFor[shape]()
	}
	t := fieldAt(path).Type
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// elsewhere names the variable and the flag for a setting.
func elsewhere(path []string) string {
	key := strings.Join(path, ".")
	var from []string
	if slices.Contains(settings(), key) {
		from = append(from, "`"+variable(key)+"`")
	}
	if name, ok := flagged()[key]; ok {
		from = append(from, "`--"+name+"`")
	}
	return strings.Join(from, ", ")
}

// built is the config of a file with one value besides the required ones, or none if text is empty.
func built(t *testing.T, path []string, text string) (*Config, error) {
	t.Helper()
	jobType := map[string]any{"name": "compress", "handler": map[string]any{"exec": []any{"true"}}}
	queue := map[string]any{"name": "files", "job_types": []any{jobType}}
	schedule := map[string]any{"name": "nightly", "when": "@daily", "queue": "files", "type": "compress"}
	at := map[string]any{"name": "shop", "queues": []any{queue}, "schedules": []any{schedule}}
	content := at
	for i, key := range path {
		if i == len(path)-1 {
			if slices.Contains([]string{"processes", "in_flight", "ahead", "start_timeout", "max_jobs", "max_memory", "restart_on"}, key) {
				at["stream"] = at["exec"]
				delete(at, "exec")
			}
			if text != "" {
				at[key] = text
			}
			break
		}
		switch inner := at[key].(type) {
		case []any:
			at, _ = inner[0].(map[string]any)
		case map[string]any:
			at = inner
		default:
			section := map[string]any{}
			if key == "retry_handler" {
				section["exec"] = []any{"true"}
			}
			at[key], at = section, section
		}
	}
	data := dbtest.Must(yaml.Marshal(content))(t)
	file := filepath.Join(t.TempDir(), "hipq.yaml")
	do(t, os.WriteFile(file, data, 0o600))
	c, err := Load(LoadOptions{File: file, Dir: filepath.Dir(file)})
	if err != nil {
		return nil, err
	}
	// the file's location doesn't matter
	c.File, c.Database.Path = "", strings.TrimPrefix(c.Database.Path, filepath.Dir(file))
	for _, q := range c.Queues {
		for _, by := range []map[string]Handler{q.Handlers, q.RetryHandlers} {
			for _, h := range by {
				h.Program().Dir, h.Program().ConfigFile = "", ""
			}
		}
	}
	return c, nil
}

// refusals are the checker's messages about an invalid value, which tell the valid ones.
var refusals = []struct {
	says  *regexp.Regexp
	value string
}{
	{regexp.MustCompile(`is not a whole number \((.*)\)`), "whole number, "},
	{regexp.MustCompile(`is not a number (from 0 to 1)`), "number "},
	{regexp.MustCompile(`is neither (true) nor (false)`), ""},
	{regexp.MustCompile(`is not one of (.*)`), "one of: "},
	{regexp.MustCompile(`is not a rate; write (.*)`), ""},
	{regexp.MustCompile(`is not a umask; write (octal digits), such as`), ""},
	{regexp.MustCompile(`is not a size; write (a whole number and a unit, .*), such as`), "size: "},
	{regexp.MustCompile(`is not a mode for a database file; write (.*)`), ""},
	{regexp.MustCompile(`is not a time zone; write (its name, such as .*)`), ""},
	{regexp.MustCompile(`is not (a URL) as `), ""},
}

// form describes the valid values, from the checker's messages about invalid ones.
func form(t *testing.T, path []string, f reflect.StructField) string {
	of := f.Type
	switch of.Kind() {
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Struct {
			return "list, [below](#" + path[len(path)-1] + ")"
		}
		if word := f.Tag.Get("word"); word != "" {
			return "list of texts, or " + word
		}
		return "list of texts"
	case reflect.Map:
		if path[len(path)-1] != "limits" {
			return "section, a text for each key"
		}
		return "section, a whole number for each key"
	case reflect.Struct, reflect.Pointer:
		return "section, below"
	}
	orOff := ""
	if fieldAt(path[:len(path)-1]).Tag.Get("limit") != "" {
		orOff = ", or off"
	}
	refusal := func(text string) string {
		if _, err := built(t, path, text); err != nil {
			return err.Error()
		}
		return ""
	}
	said := refusal("?")
	for _, r := range refusals {
		if m := r.says.FindStringSubmatch(said); m != nil {
			return r.value + strings.Join(m[1:], ", ") + orOff
		}
	}
	if !strings.Contains(said, "is not a duration") {
		return "text"
	}
	bounds := regexp.MustCompile(`is out of range \((.*)\)`).FindStringSubmatch(refusal("9999w"))
	dbtest.Require(t, bounds != nil, "%v: a duration without bounds", path)
	if strings.Contains(refusal("1h0.5s"), "not in whole seconds") {
		return "duration in whole seconds, " + bounds[1]
	}
	return "duration, " + bounds[1] + orOff
}

// checkDefault checks that setting a bounded value to its documented default changes nothing.
func checkDefault(t *testing.T, path []string, value, otherwise string) {
	isOne := value != "text" && !strings.HasPrefix(value, "list") && !strings.HasPrefix(value, "section")
	if !isOne || strings.ContainsAny(otherwise, " _") || otherwise == "none" {
		return
	}
	want := dbtest.Must(built(t, path, ""))(t)
	got, err := built(t, path, otherwise)
	if err != nil {
		t.Errorf("%v: the default %q is refused: %v", path, otherwise, err)
	} else if diff := diff(want, got); diff != "" {
		t.Errorf("%v: %q is not the default (-default +got):\n%s", path, otherwise, diff)
	}
}

// commentary are the comments of the example, by section and key.
type commentary map[string]string

var (
	asComment   = regexp.MustCompile(`(?m)^( *)# ((?:dsn|dsn_file|nodes|tls|retry_handler|ping_url|header_files|secret_file|ca|user):|  )`)
	defaultSays = regexp.MustCompile(`Default: (.*?)\.(?: |$)`)
	flagSays    = regexp.MustCompile(` ?Flag: --[a-z-]+\.`)
)

// exampleComments reads the example, including keys that are commented out.
func exampleComments(t *testing.T) commentary {
	data := dbtest.Must(os.ReadFile(examplePath))(t)
	var doc yaml.Node
	do(t, yaml.Unmarshal(asComment.ReplaceAll(data, []byte("$1$2")), &doc))
	c := commentary{}
	c.collect(doc.Content[0], "shape", reflect.TypeFor[shape]())
	return c
}

func (c commentary) collect(n *yaml.Node, name string, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			c.collect(item, name, t.Elem())
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		for i := 0; i < len(n.Content); i += 2 {
			key, says := n.Content[i], n.Content[i].HeadComment
			if i == 0 && says == "" {
				says = n.HeadComment // of the first key of a list's item
			}
			at := name + "." + key.Value
			if says != "" && c[at] == "" {
				paragraphs := strings.Split(says, "\n\n") // the first key also has the head of the file
				says, _, _ = strings.Cut(paragraphs[len(paragraphs)-1], "\n#\n")
				c[at] = strings.Join(strings.Fields(strings.ReplaceAll(says, "#", "")), " ")
			}
			if f, ok := fieldOf(t, key.Value); ok {
				c.collect(n.Content[i+1], nameOf(f), f.Type)
			}
		}
	}
}

// of returns the example's description of a key, and its default.
func (c commentary) of(t *testing.T, section, key string) (does, otherwise string) {
	says := c[section+"."+key]
	dbtest.Ensure(t, says != "", "hipq.example.yaml has no comment on %s of %s", key, section)
	if m := defaultSays.FindStringSubmatch(says); m != nil {
		otherwise = m[1]
		says = strings.Replace(says, m[0], "", 1)
	} else if strings.Contains(says, "Required.") {
		otherwise, says = "required", strings.Replace(says, "Required.", "", 1)
	}
	return strings.Join(strings.Fields(flagSays.ReplaceAllString(says, "")), " "), otherwise
}

var duration = regexp.MustCompile(`\b[0-9]+(?:ms|s|m|h|d|w)\b`)

func inCell(s string) string {
	return duration.ReplaceAllString(strings.ReplaceAll(s, "|", `\|`), "`$0`")
}
