package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/texts"
)

func under(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// fieldsOf are the fields of a section that are keys, including embedded ones.
func fieldsOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Tag.Get("key") == "" })
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for _, f := range fieldsOf(t) {
		if f.Tag.Get("key") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func knownKeys(t reflect.Type) (known []string) {
	known = texts.Map(fieldsOf(t), func(f reflect.StructField) string { return f.Tag.Get("key") })
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
