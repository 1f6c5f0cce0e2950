package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/texts"
)

// keys refuses what doesn't match t, a type of shape: unknown keys, and lists, sections or values in place of one
// another. It removes them, and also keys without a value, which mean the default. fits says whether value itself may
// stay.
func (c *checker) keys(path string, value any, t reflect.Type) (fits bool) {
	switch t.Kind() {
	case reflect.Pointer:
		return c.keys(path, value, t.Elem())
	case reflect.Struct:
		section, ok := value.(map[string]any)
		if !ok {
			c.refuse(path, "must be a section of keys (%s), not %s", strings.Join(knownKeys(t), ", "), kindOf(value))
			return false
		}
		c.section(path, section, t)
		return true
	case reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			c.refuse(path, "must be a list, not %s", kindOf(value))
			return false
		}
		fits = true
		for i, item := range list {
			name := ""
			if m, ok := item.(map[string]any); ok {
				name, _ = m["name"].(string)
			}
			if item == nil {
				c.refuse(element(path, i, name), "is empty")
				fits = false
				continue
			}
			fits = c.keys(element(path, i, name), item, t.Elem()) && fits
		}
		return fits
	case reflect.Map:
		section, ok := value.(map[string]any)
		if !ok {
			c.refuse(path, "must be a section of keys, not %s", kindOf(value))
			return false
		}
		fits = true
		for i, key := range slices.Sorted(maps.Keys(section)) {
			if text, ok := section[key].(string); !ok || text == "" {
				c.refuse(element(path, i, key), "must be a single value, not %s", kindOf(section[key]))
				fits = false
			}
			same := func(k string) bool { return k < key && strings.EqualFold(k, key) }
			if !strings.HasSuffix(path, ".limits") && slices.ContainsFunc(slices.Collect(maps.Keys(section)), same) { // viper would keep one of them
				c.refuse(element(path, i, key), "is given twice")
			}
		}
		return fits
	}
	if _, ok := value.(string); !ok {
		quote := ""
		if strings.HasSuffix(path, ".data") {
			quote = "; put JSON in quotes: '{\"id\": 1}'"
		}
		c.refuse(path, "must be a single value, not %s%s", kindOf(value), quote)
		return false
	}
	return true
}

func (c *checker) section(path string, section map[string]any, t reflect.Type) {
	for _, key := range slices.Sorted(maps.Keys(section)) {
		value, at, fits := section[key], under(path, key), false
		field, ok := fieldOf(t, key)
		switch {
		case !ok:
			if !isPlain(key) {
				at = strings.TrimSuffix(at, key) + shown(key)
				c.lines[at] = c.lines[under(path, key)]
			}
			if near := Nearest(key, knownKeys(t)); near != "" {
				c.refuse(at, "unknown key; did you mean %s?", near)
			} else {
				c.refuse(at, "unknown key; allowed here: %s", strings.Join(knownKeys(t), ", "))
			}
			c.unsure[path] = true
		case value == nil && field.Type.Kind() == reflect.Pointer:
			c.refuse(at, "is empty; fill it in or leave the key out")
		case value == nil:
		case value == "" && field.Tag.Get("required") != "":
			c.refuse(at, "is empty; fill it in")
		case value == "":
			c.refuse(at, "is empty; leave the key out for its default")
		case field.Tag.Get("word") == value:
			section[key], fits, c.words[at] = []any{value}, true, true
		default:
			fits = c.keys(at, value, field.Type)
			c.refused[at] = !fits
		}
		if !fits {
			delete(section, key)
		}
	}
}

func under(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// fieldsOf are the fields of a section that are keys, including embedded ones.
func fieldsOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous })
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for _, f := range fieldsOf(t) {
		if f.Tag.Get("mapstructure") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func knownKeys(t reflect.Type) (known []string) {
	known = texts.Map(fieldsOf(t), func(f reflect.StructField) string { return f.Tag.Get("mapstructure") })
	slices.Sort(known)
	return known
}

func kindOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "a section of keys"
	case []any:
		return "a list"
	}
	return "a single value"
}

var plainWord = texts.Pattern(`^[\w.:-]+$`)

// isPlain reports whether a name can be printed. It checks the length in code, because a count in the expression is slow to compile.
func isPlain(name string) bool { return len(name) <= 64 && plainWord().MatchString(name) }

// element is the path of a list's element: by name if that is plain, else by index.
func element(path string, i int, name string) string {
	if isPlain(name) {
		return path + "." + name
	}
	return fmt.Sprintf("%s[%d]", path, i)
}

// Nearest returns the known word that word probably stands for, ignoring case, or "".
func Nearest(word string, known []string) string {
	best, least := "", min(3, len(word)) // with three mistakes or more it would be a guess
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
