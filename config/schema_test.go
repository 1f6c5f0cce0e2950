package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/hipq/hipq/internal/dbtest"
)

const schemaPath = "../docs/reference/hipq.schema.json"

// TestSchema checks that docs/reference/hipq.schema.json, by which editors check hipq.yaml, is made of the same keys, bounds and
// comments as the page of the settings. TestReference says how to write it.
func TestSchema(t *testing.T) {
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	do(t, e.Encode(jsonSchema(t)))
	if *update {
		do(t, os.WriteFile(schemaPath, want.Bytes(), 0o644)) //nolint:gosec // everyone may read a page of the docs
	}
	diff := diff(want.String(), string(dbtest.Must(os.ReadFile(schemaPath))(t)))
	dbtest.Ensure(t, diff == "", "docs/reference/hipq.schema.json is stale; run go test ./config -run 'TestReference|TestSchema' -update:\n%s", diff)
}

// object is a part of a JSON Schema.
type object = map[string]any

func jsonSchema(t *testing.T) object {
	comments := exampleComments(t)
	paths := map[string][]string{}
	findSections("shape", reflect.TypeFor[shape](), nil, paths)
	sections := object{}
	for name, path := range paths {
		properties, required := object{}, []string{}
		for _, f := range fieldsOf(sectionAt(path)) {
			key := f.Tag.Get("key")
			says, otherwise := comments.of(t, name, key)
			property := propertyOf(form(t, append(slices.Clone(path), key), f), f.Type, nameOf(f))
			if otherwise == "required" {
				required = append(required, key)
				if f.Type.Kind() == reflect.Slice {
					property["minItems"], property["type"] = 1, "array"
				}
			} else {
				says += " Default: " + otherwise + "."
			}
			property["description"] = strings.TrimSuffix(says, " Default: .")
			properties[key] = property
		}
		section := object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
		if len(required) > 0 {
			section["required"] = required
		}
		if name == "handlerSection" {
			section["oneOf"] = []object{{"required": []string{"exec"}}, {"required": []string{"stream"}}, {"required": []string{"http"}}}
		}
		sections[name] = section
	}
	root, _ := sections["shape"].(object)
	delete(sections, "shape")
	root["type"] = "object"
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "hipq.yaml"
	root["definitions"] = sections
	return root
}

const (
	durationPattern = `^(0|([0-9]+w)?([0-9]+d)?([0-9][0-9.]*(ns|us|µs|μs|ms|s|m|h))*)$`
	wholePattern    = `^[+-]?[0-9]+$`
)

// scalar is a value that may be written without quotes, whatever YAML takes it for.
var scalar = object{"type": []string{"string", "number", "boolean"}}

// propertyOf makes a schema of what the page says that a value may be.
func propertyOf(value string, of reflect.Type, name string) object {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	for word, enum := range map[string][]any{"off": {"off", false}, "all": {"all"}} {
		if rest, is := strings.CutSuffix(value, ", or "+word); is {
			return object{"anyOf": []object{plainProperty(rest, of, name), {"enum": enum}}}
		}
	}
	return plainProperty(value, of, name)
}

func plainProperty(value string, of reflect.Type, name string) object {
	switch {
	case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct:
		return object{"type": []string{"array", "null"}, "items": object{"$ref": "#/definitions/" + name}}
	case of.Kind() == reflect.Slice:
		return object{"type": []string{"array", "null"}, "items": scalar}
	case of.Kind() == reflect.Struct:
		return object{"allOf": []object{{"$ref": "#/definitions/" + name}}}
	case of.Kind() == reflect.Map && strings.Contains(value, "whole number"):
		return object{"type": []string{"object", "null"}, "additionalProperties": whole("", "")}
	case of.Kind() == reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": scalar}
	case value == "true, false":
		return object{"enum": []any{true, false, "yes", "no", "on", "off"}}
	case strings.HasPrefix(value, "whole number"):
		bounds := regexp.MustCompile(`(-?\d+) to (-?\d+)`).FindStringSubmatch(value)
		return whole(bounds[1], bounds[2])
	case strings.HasPrefix(value, "number from 0 to 1"):
		return object{"anyOf": []object{{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": `^[0-9.]+$`}}}
	case strings.HasPrefix(value, "duration"):
		return object{"anyOf": []object{{"const": 0}, {"type": "string", "minLength": 1, "pattern": durationPattern}}}
	case strings.HasPrefix(value, "size"):
		return object{"type": "string", "pattern": "^[0-9]{1,9}(KiB|MiB|GiB)$"}
	case strings.HasPrefix(value, "one of: "):
		return object{"enum": regexp.MustCompile(`, | or `).Split(strings.TrimPrefix(value, "one of: "), -1)}
	case strings.HasPrefix(value, "a number of starts"):
		return object{"type": "string", "pattern": "^[0-9]{1,9}/.+$"}
	case value == "a URL":
		return object{"type": "string", "pattern": "^https?://"}
	}
	property := object{}
	for k, v := range scalar {
		property[k] = v
	}
	return property
}

// whole is a whole number, of these bounds if there are any. In quotes it is one too.
func whole(least, most string) object {
	number := object{"type": "integer"}
	if least != "" {
		number["minimum"], number["maximum"] = json.Number(least), json.Number(most)
	}
	return object{"anyOf": []object{number, {"type": "string", "pattern": wholePattern}}}
}

// beyondSchema are the bad configs that a schema can't tell from good ones, by their files in testdata/bad.
var beyondSchema = []string{
	"arguments", "dsn_and_dsn_file", "dsn_as_dsn_file", "dsn_file_device", "dsn_file_missing", "dsn_file_with_sqlite",
	"dsn_missing", "dsn_with_sqlite", "duration_overflow", "duration_too_long", "env_colon", "env_name", "env_reserved",
	"env_twice", "env_words", "exec_empty", "exec_empty_program", "exec_nul", "keep_finished_fraction", "key_empty",
	"lock_for_short", "lock_for_short_for_grace", "name_upper_case", "nodes", "nodes_with_sqlite",
	"queue_name_bad_beside_bad_name", "queue_name_hyphen", "queue_name_reserved", "queue_name_twice", "retry_max_delay",
	"retry_max_delay_inherited", "run_for_short", "tables_not_allowed", "tables_without_queue", "timeout_fraction",
	"timeout_of_instance", "timeout_zero", "timezone_local", "timezone_unknown", "type_name_control", "type_name_long",
	"type_name_reserved", "type_name_twice", "window_impossible", "yaml_documents",
}

// TestSchemaOfConfigs checks with a validator that the schema accepts each config that hipq accepts: the example, the starter, and those
// of the scripts. It refuses the bad ones, as far as a schema can tell.
func TestSchemaOfConfigs(t *testing.T) {
	schema := dbtest.Must(jsonschema.NewCompiler().Compile(schemaPath))(t)
	do(t, validate(t, schema, dbtest.Must(os.ReadFile(examplePath))(t)))
	do(t, validate(t, schema, NewStarter().Config))
	good := 0
	for _, script := range dbtest.Must(filepath.Glob("../cmd/testdata/script/*.txtar"))(t) {
		for _, f := range dbtest.Must(txtar.ParseFile(script))(t).Files {
			f.Data = bytes.ReplaceAll(f.Data, []byte("$DATABASE"), []byte("{path: hipq.db}"))
			if filepath.Ext(f.Name) != ".yaml" || !accepted(t, f.Data) {
				continue
			}
			good++
			err := validate(t, schema, f.Data)
			dbtest.Ensure(t, err == nil, "%s, %s: hipq accepts it, and the schema doesn't: %v", filepath.Base(script), f.Name, err)
		}
	}
	dbtest.Ensure(t, good > 100, "only %d configs in scripts", good)
	var beyond []string
	for _, file := range dbtest.Must(filepath.Glob("testdata/bad/*.yaml"))(t) {
		if validate(t, schema, dbtest.Must(os.ReadFile(file))(t)) == nil {
			beyond = append(beyond, strings.TrimSuffix(filepath.Base(file), ".yaml"))
		}
	}
	dbtest.Same(t, diff(beyondSchema, beyond), "", "bad configs that the schema accepts (-want +got)")
}

func accepted(t *testing.T, data []byte) bool {
	file := filepath.Join(t.TempDir(), "hipq.yaml")
	do(t, os.WriteFile(file, data, 0o600))
	_, err := Load(LoadOptions{File: file, Dir: filepath.Dir(file), Env: noEnv})
	return err == nil
}

// validate reads YAML as an editor does.
func validate(t *testing.T, schema *jsonschema.Schema, data []byte) error {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return err
	}
	keysAreTexts(&doc)
	var content any
	if err := doc.Decode(&content); err != nil {
		return err
	}
	return schema.Validate(content)
}

func keysAreTexts(n *yaml.Node) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.ShortTag() != "!!merge" || child.ShortTag() == "!!timestamp" {
			child.Tag = "!!str"
		}
		keysAreTexts(child)
	}
}
