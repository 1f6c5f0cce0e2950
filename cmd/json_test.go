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
	"A job: jobs, failures --jobs, run":          job.JSON{},
	"Jobs that failed in the same way: failures": failureKind{},
	"What show has besides: show": struct {
		Schedule *string    `json:"schedule"`
		Slot     *time.Time `json:"slot"`
		Attempts []attempt  `json:"attempts"`
	}{},
	"An entry of the activity: activity":                                       activity.JSON{},
	"Why a job isn't running: why":                                             explained{},
	"What stands where: status":                                                statusReport{},
	"What was enqueued: enqueue":                                               enqueued{},
	"What was added: enqueue --ndjson":                                         counts{},
	"What was done to a job: cancel, dismiss, reschedule, retry":               change{},
	"What an answer did: complete, fail":                                       answered{},
	"A queue that was paused or resumed: queue pause, queue resume":            queuePaused{},
	"A recurring job: schedules":                                               scheduled{},
	"A schedule that was paused or resumed: schedules pause, schedules resume": schedulePaused{},
	"What a schedule has enqueued now: schedules run":                          scheduleRun{},
	"What a worker did: work":                                                  worked{},
	"The metrics: monitor":                                                     monitored{},
	"The verdict: monitor --check":                                             judged{},
	"The counts of the metrics":                                                monitor.Counts{},
	"Hours that were missed: monitor --missing":                                missed{},
	"What was deleted: purge":                                                  purged{},
	"What was made: init":                                                      initialised{},
	"What is wrong with the config: config check":                              checked{},
	"What is wrong with the world: doctor":                                     doctor.Finding{},
	"A failure: every command": struct {
		Error failure `json:"error"`
	}{},
}

// TestJSONIsDocumented: docs/reference/json.md has each field of each object, with its type, and no other.
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
			told[heading][strings.Trim(cells[1], " `")] = strings.TrimSpace(cells[2])
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

// fieldsOf puts the fields of an object into all, with their types.
func fieldsOf(all map[string]string, under string, object reflect.Type) {
	for i := range object.NumField() {
		f := object.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && f.Type == reflect.TypeFor[monitor.Counts]() && under != "":
			all[under+"*"] = "the counts" // they have a table of their own
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
