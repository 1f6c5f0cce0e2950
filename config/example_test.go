package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
)

const examplePath = "../hipq.example.yaml"

func TestExampleLoads(t *testing.T) {
	got := dbtest.Must(Load(LoadOptions{File: examplePath, Env: noEnv}))(t)
	// outside the queues, the example shows the defaults
	want := mustLoad(t, minimal)
	want.File, want.Database.Path, want.Queues = got.File, filepath.Join(filepath.Dir(got.File), "hipq.db"), got.Queues
	want.Schedules = got.Schedules
	want.Alert.Queues = got.Alert.Queues
	dbtest.Same(t, diff(want, got), "", "(-default +example)")
	files := got.Queues[0]
	if files.KeepFinished != queue.DefaultKeepFinished || files.KeepFailed != queue.DefaultKeepFailed || files.ThrottleLimit != 0 {
		t.Errorf("the first queue does not show the defaults: %+v", files.Options)
	}
}

// TestExampleIsComplete: the example has each key of each section, some in comments.
func TestExampleIsComplete(t *testing.T) {
	data := dbtest.Must(os.ReadFile(examplePath))(t)
	content, _, err := parseYAML(data)
	do(t, err)
	shownKeys := map[string]bool{}
	collect(content, reflect.TypeFor[shape](), shownKeys)
	var missing []string
	for _, key := range allKeys(reflect.TypeFor[shape]()) {
		if !shownKeys[key] {
			missing = append(missing, key)
		}
	}
	want := []string{
		"databaseSection.dsn", "databaseSection.dsn_file", "databaseSection.nodes", "databaseSection.tls", "tlsSection.ca", "tlsSection.cert",
		"tlsSection.key", "tlsSection.server_name", "monitorSection.ping_url", "purgeSection.ping_url", "shape.retry_handler", "retryHandlerSection.user",
		"queueSection.retry_handler", "retryHandlerSection.user", "retryHandlerSection.user",
		"httpSection.header_files", "httpSection.secret_file", "httpSection.ca", "handlerSection.user",
	}
	dbtest.Ensure(t, slices.Equal(missing, want), "not in the example: %v, want only %v", missing, want)
	for _, comment := range []string{"\n  # dsn: ", "\n  # dsn_file: ", "\n  # nodes: ", "\n  # tls:\n", "\n# retry_handler: ", "\n    # retry_handler: ", "\n            # header_files: ", "\n            # secret_file: ", "\n            # ca: "} {
		dbtest.Ensure(t, strings.Contains(string(data), comment), "the example has no comment %q", comment)
	}
}

// collect records the keys in content, with their sections.
func collect(content any, t reflect.Type, found map[string]bool) {
	switch content := content.(type) {
	case map[string]any:
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Map {
			return // its keys are the user's
		}
		for key, value := range content {
			found[t.Name()+"."+key] = true
			if field, ok := fieldOf(t, key); ok {
				collect(value, field.Type, found)
			}
		}
	case []any:
		for _, item := range content {
			collect(item, t.Elem(), found)
		}
	}
}

func allKeys(t reflect.Type) []string {
	var keys []string
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return allKeys(t.Elem())
	case reflect.Struct:
		for _, f := range fieldsOf(t) {
			keys = append(keys, t.Name()+"."+f.Tag.Get("mapstructure"))
			keys = append(keys, allKeys(f.Type)...)
		}
	}
	return keys
}
