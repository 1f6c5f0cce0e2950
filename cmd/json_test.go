package cmd

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
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

// documents are the objects that commands print, by their headings in docs/reference/json.md.
var documents = map[string]any{
	"Job: jobs, failures --jobs, run": job.JSON{},
	"Kind of failure: failures":       failureKind{},
	"Additional fields of show": struct {
		Schedule *string    `json:"schedule"`
		Slot     *time.Time `json:"slot"`
		Attempts []attempt  `json:"attempts"`
	}{},
	"Entry: activity":            activity.JSON{},
	"Reasons: why":               explained{},
	"Counts: status":             statusReport{},
	"New job: enqueue":           enqueued{},
	"New jobs: enqueue --ndjson": counts{},
	"Changed job: cancel, dismiss, reschedule, retry": change{},
	"Answer: complete, fail":                          answered{},
	"Queue: queues pause, queues resume":              queuePaused{},
	"Schedule: schedules":                             scheduled{},
	"Schedule: schedules pause, schedules resume":     schedulePaused{},
	"Job of a schedule: schedules run":                scheduleRun{},
	"Worker: work":                                    worked{},
	"Metrics: monitor":                                monitored{},
	"Check: monitor --check":                          judged{},
	"Counts of the metrics":                           monitor.Counts{},
	"Missed hour: monitor --missing":                  missed{},
	"Deleted rows: purge":                             purged{},
	"Tables: init":                                    initialised{},
	"Findings: config check":                          checked{},
	"Check: doctor":                                   doctor.Finding{},
	"Failure: every command": struct {
		Error failure `json:"error"`
	}{},
}

// TestJSONIsDocumented checks that docs/reference/json.md lists exactly the fields of each object, with types.
func TestJSONIsDocumented(t *testing.T) {
	text := dbtest.Must(os.ReadFile("../docs/reference/json.md"))(t)
	told := map[string]map[string]string{}
	heading := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.ReplaceAll(rest, "`", "")
			told[heading] = map[string]string{}
		}
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") && len(cells) >= 4 {
			for field := range strings.SplitSeq(cells[1], ",") { // a row may list several fields of a type
				told[heading][strings.Trim(field, " `")] = strings.TrimSpace(cells[2])
			}
		}
	}
	for name, object := range documents {
		fields := map[string]string{}
		fieldsOf(fields, "", reflect.TypeOf(object))
		if maps.Equal(fields, told[name]) {
			continue
		}
		t.Errorf("docs/reference/json.md, %q, is not what the command prints:", name)
		for _, path := range slices.Sorted(maps.Keys(fields)) {
			if told[name][path] != fields[path] {
				t.Logf("it prints     | `%s` | %s |", path, fields[path])
			}
		}
		for path, kind := range told[name] {
			if fields[path] == "" {
				t.Logf("it hasn't got | `%s` | %s |", path, kind)
			}
		}
	}
}

// fieldsOf adds an object's fields with their types to all.
func fieldsOf(all map[string]string, under string, object reflect.Type) {
	for i := range object.NumField() {
		f := object.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && f.Type == reflect.TypeFor[monitor.Counts]() && under != "":
			all[under+"*"] = "the counts" // they have their own table
		case f.Anonymous && name == "":
			fieldsOf(all, under, f.Type)
		case !f.IsExported() || name == "-":
		default:
			path := under + name
			if strings.Contains(options, "omitempty") {
				addField(all, path, f.Type, ", may be missing")
			} else {
				addField(all, path, f.Type, "")
			}
		}
	}
}

func addField(all map[string]string, path string, kind reflect.Type, more string) {
	switch kind {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[engine.Time]():
		all[path] = "time" + more
		return
	case reflect.TypeFor[job.Time]():
		all[path] = "time or null"
		return
	case reflect.TypeFor[json.RawMessage]():
		all[path] = "any" + more
		return
	}
	switch kind.Kind() {
	case reflect.Pointer:
		if more == "" {
			more = " or null"
		}
		addField(all, path, kind.Elem(), more)
	case reflect.Struct:
		if more != "" {
			all[path] = "object" + more
		}
		fieldsOf(all, path+".", kind)
	case reflect.Slice:
		addField(all, path+"[]", kind.Elem(), more)
	case reflect.String:
		all[path] = "string" + more
	case reflect.Bool:
		all[path] = "bool" + more
	case reflect.Int, reflect.Int64:
		all[path] = "integer" + more
	case reflect.Float64:
		all[path] = "number" + more
	default:
		panic(fmt.Sprint(path, " is a ", kind))
	}
}
