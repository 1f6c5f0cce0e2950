package cmd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// shape is the command shape. A line of WANT is a path and a type: attempts[].run_ms integer. [] is each element of a
// list, which must not be empty. Types are string, integer, bool, list, object, time (RFC 3339, UTC) and any, with
// |null if nullable. Unlisted fields may exist.
func shape(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: shape FILE WANT")
	}
	objects := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	objects.UseNumber()
	want := strings.Split(strings.TrimSpace(ts.ReadFile(args[1])), "\n")
	for n := 0; ; n++ {
		var object any
		err := objects.Decode(&object)
		if errors.Is(err, io.EOF) && n > 0 {
			return
		}
		ts.Check(err)
		for _, line := range want {
			path, kind, _ := strings.Cut(line, " ")
			if err := has(object, path, kind); err != nil {
				ts.Fatalf("object %d: %s: %v", n+1, path, err)
			}
		}
	}
}

func has(value any, path, kind string) error {
	if path == "" {
		return isA(value, kind)
	}
	if rest, ok := strings.CutPrefix(path, "[]"); ok {
		list, ok := value.([]any)
		if !ok || len(list) == 0 {
			return fmt.Errorf("%v is not a list with an element", value)
		}
		for _, element := range list {
			if err := has(element, strings.TrimPrefix(rest, "."), kind); err != nil {
				return err
			}
		}
		return nil
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		end = len(path)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is not an object", value)
	}
	field, ok := object[path[:end]]
	if !ok {
		return fmt.Errorf("there is no field %s", path[:end])
	}
	return has(field, strings.TrimPrefix(path[end:], "."), kind)
}

func isA(value any, kind string) error {
	kind, orNull := strings.CutSuffix(kind, "|null")
	ok := false
	switch v := value.(type) {
	case nil:
		ok = orNull
	case bool:
		ok = kind == "bool"
	case json.Number:
		_, err := v.Int64()
		ok = kind == "integer" && err == nil
	case string:
		_, err := time.Parse(time.RFC3339, v)
		ok = kind == "string" || kind == "time" && err == nil && strings.HasSuffix(v, "Z")
	case []any:
		ok = kind == "list"
	case map[string]any:
		ok = kind == "object"
	}
	if !ok && kind != "any" {
		return fmt.Errorf("%v is not of type %s", value, kind)
	}
	return nil
}
