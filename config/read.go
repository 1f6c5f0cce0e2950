package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

const (
	// maxInt is the maximum of the databases' columns.
	maxInt = math.MaxInt32
	// longest exceeds any sensible time. It keeps sums of times within what the databases can store.
	longest = 3650 * day
	// maxSize exceeds any sensible size.
	maxSize = 1 << 50
)

// spot is a section of the file that is read into a struct of shape.
type spot struct {
	path    string
	content map[string]any
	outer   outside
	// defaults are the values of its keys, in order; nil if each key has its own.
	defaults []string
	// kind is the kind of handler. of is set in a section that is for other kinds.
	kind, of string
}

// outside is where a key or a section inherits its value from; the zero outside if it doesn't.
type outside struct {
	path  string
	value reflect.Value
	// whole says that it is a section like the one that inherits all its keys from it.
	whole bool
}

func (o outside) of(f reflect.StructField) outside {
	key := f.Tag.Get("inherits")
	if o.whole {
		key = f.Tag.Get("key")
	}
	if !o.value.IsValid() || key == "" {
		return outside{}
	}
	from, _ := fieldOf(o.value.Type(), key)
	return outside{under(o.path, key), o.value.FieldByIndex(from.Index), true}
}

// section reads the keys of a section, and refuses what doesn't fit.
func (c *checker) section(p spot, into reflect.Value) {
	before := len(c.errs)
	c.unknownKeys(p.path, p.content, into.Type())
	p.kind = cmp.Or(p.kind, handlerKind(p.content))
	for i, f := range fieldsOf(into.Type()) {
		key, field := f.Tag.Get("key"), into.FieldByIndex(f.Index)
		at, of := under(p.path, key), cmp.Or(p.of, f.Tag.Get("of"))
		value, given := p.content[key]
		optional := f.Type.Kind() == reflect.Pointer
		if of != "" && !slices.Contains(strings.Fields(of), p.kind) && f.Type.Kind() != reflect.Struct {
			c.ofOthers(at, of, p.kind, given, optional)
			continue
		}
		switch {
		case value == nil && given && optional:
			c.refuse(at, "is empty; fill it in or leave the key out")
		case value == "" && f.Tag.Get("required") != "":
			c.refuse(at, "is empty; fill it in")
		case value == "":
			c.refuse(at, "is empty; leave the key out for its default")
			value = nil
		}
		outer := p.outer.of(f)
		switch {
		case optional:
			c.optional(at, value, field, outer)
		case f.Type.Kind() == reflect.Struct:
			content, _ := c.asSection(at, value, f.Type)
			c.section(spot{at, content, outer, strings.Fields(f.Tag.Get("default")), p.kind, of}, field)
		case isList(f.Type):
			c.list(at, value, field, outside{path: p.path, value: into})
		case f.Type.Kind() == reflect.Slice:
			c.textList(at, value, field, f.Tag)
		case f.Type.Kind() == reflect.Map:
			c.values(at, value, field, f.Tag)
		case i < len(p.defaults):
			c.single(at, value, field, f.Tag, outer, p.defaults[i])
		default:
			c.single(at, value, field, f.Tag, outer, f.Tag.Get("default"))
		}
	}
	if whole, ok := into.Addr().Interface().(interface {
		check(c *checker, path string)
	}); ok && len(p.content) > 0 && len(c.errs) == before {
		whole.check(c, p.path)
	}
}

func (c *checker) unknownKeys(path string, content map[string]any, t reflect.Type) {
	known := knownKeys(t)
	for _, key := range slices.Sorted(maps.Keys(content)) {
		at := under(path, key)
		if slices.Contains(known, key) {
			continue
		}
		if !isPlain(key) {
			at = strings.TrimSuffix(at, key) + shown(key)
			c.lines[at] = c.lines[under(path, key)]
		}
		if near := Nearest(key, known); near != "" {
			c.refuse(at, "unknown key; did you mean %s?", near)
		} else {
			c.refuse(at, "unknown key; allowed here: %s", strings.Join(known, ", "))
		}
		c.unsure[path] = true
	}
}

// handlerKind is the kind of a handler's section, also if that isn't as it should be.
func handlerKind(content map[string]any) string {
	for _, kind := range []string{"exec", "stream", "http"} {
		if _, given := content[kind]; given {
			return kind
		}
	}
	return "exec"
}

// ofOthers refuses a key for other kinds of handler.
func (c *checker) ofOthers(at, of, kind string, given, optional bool) {
	switch {
	case given && strings.HasSuffix(at, "."+of):
		c.refuse(at, "is given, and so is %s; a handler has only one of them", kind)
	case given:
		c.refuse(at, "is for %s, but this is %s", strings.ReplaceAll(of, " ", " and "), kind)
	}
	if !optional {
		c.note(at, nil, false, "")
	}
}

// asSection returns the keys of a section; nil if it is absent.
func (c *checker) asSection(at string, value any, t reflect.Type) (content map[string]any, ok bool) {
	if content, ok = value.(map[string]any); ok || value == nil {
		return content, true
	}
	c.refuse(at, "must be a section of keys (%s), not %s", strings.Join(knownKeys(t), ", "), kindOf(value))
	return nil, false
}

// optional reads a section that differs from an empty one if it is absent.
func (c *checker) optional(at string, value any, into reflect.Value, outer outside) {
	switch {
	case value != nil:
		if content, ok := c.asSection(at, value, into.Type().Elem()); ok {
			into.Set(reflect.New(into.Type().Elem()))
			c.section(spot{path: at, content: content}, into.Elem())
		}
	case outer.value.IsValid() && !outer.value.IsNil():
		into.Set(outer.value)
		c.noteAgain(at, outer.path)
	default:
		c.note(at, nil, false, "")
	}
}

// list reads a list of sections. If one isn't a section, the list remains empty.
func (c *checker) list(at string, value any, into reflect.Value, outer outside) {
	items, ok := value.([]any)
	if !ok && value != nil {
		c.refuse(at, "must be a list, not %s", kindOf(value))
		return
	}
	all := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		name := ""
		if m, ok := item.(map[string]any); ok {
			name, _ = m["name"].(string)
		}
		path := element(at, i, name)
		if item == nil {
			c.refuse(path, "is empty")
		}
		content, isSection := c.asSection(path, item, into.Type().Elem())
		if item == nil || !isSection {
			c.refused[at] = true
			continue
		}
		c.section(spot{path: path, content: content, outer: outer}, all.Index(i))
	}
	if !c.refused[at] {
		into.Set(all)
	}
}

// textList reads a list of texts, or the word that stands for one.
func (c *checker) textList(at string, value any, into reflect.Value, tag reflect.StructTag) {
	items, ok := value.([]any)
	if word := tag.Get("word"); word != "" && value == word {
		items, ok, c.words[at] = []any{value}, true, true
	}
	if !ok && value != nil {
		c.refuse(at, "must be a list, not %s", kindOf(value))
	}
	list := make([]string, 0, len(items))
	for i, item := range items {
		path := element(at, i, "")
		text, ok := item.(string)
		switch {
		case item == nil:
			c.refuse(path, "is empty")
		case !ok:
			c.refuse(path, "must be a single value, not %s", kindOf(item))
		case tag.Get("file") != "":
			text = c.absolute(text)
		}
		c.refused[at] = c.refused[at] || !ok
		list = append(list, text)
	}
	if len(list) > 0 && !c.refused[at] {
		into.Set(reflect.ValueOf(list))
	}
	var show any
	if hide := hiding[tag.Get("hide")]; hide != nil && !c.words[at] {
		list = texts.Map(list, hide)
	}
	if len(list) > 0 {
		show = list
	}
	c.note(at, show, len(list) > 0, "")
}

// values reads a section with keys of any name. Texts may be secrets, so only their keys are shown.
func (c *checker) values(at string, value any, into reflect.Value, tag reflect.StructTag) {
	section, ok := value.(map[string]any)
	if !ok && value != nil {
		c.refuse(at, "must be a section of keys, not %s", kindOf(value))
	}
	names := slices.Sorted(maps.Keys(section))
	all := reflect.MakeMap(into.Type())
	for i, name := range names {
		path, elem := element(at, i, name), into.Type().Elem()
		if text, ok := section[name].(string); !ok || text == "" {
			c.refuse(path, "must be a single value, not %s", kindOf(section[name]))
		} else if v, err := c.read(text, elem, tag); err != nil {
			c.refuse(path, "%w", err)
		} else {
			all.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(v))
		}
		c.refused[at] = c.refused[at] || c.refused[path]
	}
	into.Set(all)
	var show any
	switch {
	case len(names) > 0 && into.Type().Elem().Kind() == reflect.Int:
		show = into.Interface()
	case len(names) > 0:
		show = names
	}
	c.note(at, show, len(names) > 0, "")
}

// single reads a single value.
func (c *checker) single(at string, value any, into reflect.Value, tag reflect.StructTag, outer outside, otherwise string) {
	if words := strings.Fields(tag.Get("words")); otherwise == "" && into.IsZero() && len(words) > 0 {
		otherwise = words[0]
	}
	if outer.value.IsValid() {
		into.Set(outer.value.Convert(into.Type()))
	} else if otherwise != "" {
		v, _ := c.read(otherwise, into.Type(), tag) // one out of bounds means none
		into.Set(reflect.ValueOf(v).Convert(into.Type()))
	}
	text, ok := value.(string)
	switch {
	case ok && text != "":
		v, err := c.read(text, into.Type(), tag)
		if err != nil {
			c.refuse(at, "%w", err)
		} else {
			into.Set(reflect.ValueOf(v).Convert(into.Type()))
		}
	case !ok && value != nil && strings.HasSuffix(at, ".data"):
		c.refuse(at, "must be a single value, not %s; put JSON in quotes: '{\"id\": 1}'", kindOf(value))
	case !ok && value != nil:
		c.refuse(at, "must be a single value, not %s", kindOf(value))
	}
	c.note(at, shownValue(into, tag), text != "", outer.path)
}

// read parses a value of a type. With an error about its bounds it returns the value too.
func (c *checker) read(text string, t reflect.Type, tag reflect.StructTag) (v any, err error) {
	from, to := tag.Get("from"), tag.Get("to")
	switch limit := tag.Get("limit"); {
	case limit != "":
		return c.readLimit(text, limit)
	case t == reflect.TypeFor[time.Duration]():
		return readSpan(text, from, to, tag.Get("whole"))
	case t.Kind() == reflect.Int64:
		return readSize(text, from)
	case t.Kind() == reflect.Int:
		return readWhole(text, from, to)
	case t.Kind() == reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f >= 0 && f <= 1) { // this form refuses NaN too
			return f, fmt.Errorf("%s is not a number from 0 to 1", shown(text))
		}
		return f, nil
	case t.Kind() == reflect.Bool:
		return readTruth(text)
	case tag.Get("file") != "":
		return c.absolute(text), nil
	}
	if words := strings.Fields(tag.Get("words")); len(words) > 0 && !slices.Contains(words, text) {
		return text, fmt.Errorf("%s is not one of %s", shown(text), strings.Join(words, ", "))
	}
	return text, nil
}

// readTruth takes the spellings of YAML files and environments.
func readTruth(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither true nor false", shown(text))
}

func readWhole(text, from, to string) (int, error) {
	low, _ := strconv.Atoi(cmp.Or(from, "0"))
	high, _ := strconv.Atoi(cmp.Or(to, strconv.Itoa(maxInt)))
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		err = fmt.Errorf("%s is not a whole number (%d to %d)", shown(text), low, high)
	case n < low || n > high:
		err = fmt.Errorf("%d is out of range (%d to %d)", n, low, high)
	}
	return n, err
}

// readSpan parses a duration with bounds, which must be in whole seconds or hours if there is such a unit.
func readSpan(text, from, to, whole string) (time.Duration, error) {
	low, _ := ParseDuration(cmp.Or(from, "0"))
	high, _ := ParseDuration(cmp.Or(to, formatDuration(longest)))
	d, err := ParseDuration(text)
	unit, _ := ParseDuration(cmp.Or(whole, "1ns"))
	switch {
	case err != nil:
	case d < low || d > high:
		err = fmt.Errorf("%s is out of range (%s to %s)", shown(text), formatDuration(low), formatDuration(high))
	case d%unit != 0:
		err = fmt.Errorf("%s is not in whole %s", shown(text), map[string]string{"1s": "seconds", "1h": "hours"}[whole])
	}
	return d, err
}

var sizeForm = texts.Pattern(`^([0-9]{1,9})(KiB|MiB|GiB)$`)

// readSize parses a number of bytes with its unit.
func readSize(text, from string) (int64, error) {
	m := sizeForm().FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%s is not a size; write a whole number and a unit, KiB, MiB or GiB, such as 512MiB", shown(text))
	}
	bytes, _ := strconv.ParseInt(m[1], 10, 64) // few digits
	bytes *= map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[m[2]]
	if from != "" {
		if low, _ := readSize(from, ""); bytes < low || bytes > maxSize {
			return bytes, fmt.Errorf("%s is out of range (%s to %s)", shown(text), texts.Bytes(low), texts.Bytes(maxSize))
		}
	}
	return bytes, nil
}

// shownValue is how config show shows a single value; nil if there is none.
func shownValue(v reflect.Value, tag reflect.StructTag) any {
	limit, hide, from := tag.Get("limit"), hiding[tag.Get("hide")], tag.Get("from")
	switch {
	case limit != "":
		return showLimit(v.Float(), limit)
	case v.Kind() == reflect.String && v.String() == "":
		return nil
	case v.Kind() == reflect.String && hide != nil:
		return openText(hide(v.String()))
	case v.Kind() == reflect.String:
		return v.String()
	case v.Type() == reflect.TypeFor[time.Duration]():
		d := time.Duration(v.Int())
		if low, _ := ParseDuration(from); d < low {
			return nil
		}
		return formatDuration(d)
	case v.Kind() == reflect.Int64 && v.Int() == 0:
		return nil
	case v.Kind() == reflect.Int64:
		return texts.Bytes(v.Int())
	case v.Kind() == reflect.Int:
		n := int(v.Int())
		if low, _ := strconv.Atoi(from); n < low {
			return nil
		}
		return n
	}
	return v.Interface()
}

func (c *checker) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.dir, path)
}
