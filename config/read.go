package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// spot is a section of the file that is read into a struct of shape.
type spot struct {
	path    string
	content map[string]any
	outer   outside
	// kind is the kind of handler. of is set in a section that is for other kinds. limit is the kind of its limits.
	kind, of, limit string
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
	for _, f := range fieldsOf(into.Type()) {
		key, field := f.Tag.Get("key"), into.FieldByIndex(f.Index)
		at, of := under(p.path, key), cmp.Or(p.of, f.Tag.Get("of"))
		value, given := p.content[key]
		optional := f.Type.Kind() == reflect.Pointer
		if of != "" && !slices.Contains(strings.Fields(of), p.kind) && f.Type.Kind() != reflect.Struct {
			c.ofOthers(at, of, p.kind, hasValue(value), optional)
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
			c.section(spot{at, content, outer, p.kind, of, f.Tag.Get("limit")}, field)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct: // of sections
			c.list(at, value, field, outside{path: p.path, value: into})
		case f.Type.Kind() == reflect.Slice:
			c.textList(at, value, field, f.Tag)
		case f.Type.Kind() == reflect.Map:
			c.values(at, value, field, f.Tag)
		default:
			c.single(at, value, field, f.Tag+reflect.StructTag(fmt.Sprintf(` limit:%q`, p.limit)), outer)
		}
	}
	if len(p.content) == 0 || len(c.errs) > before {
		return
	}
	switch whole := into.Addr().Interface().(type) {
	case *monitor.Limits:
		c.limits(p.path, *whole, p.limit)
	case *worker.Options:
		c.worker(p.path, whole)
	case *job.RetryPolicy:
		c.retry(p.path, whole)
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

// handlerKind is the kind of a handler's section, also if that isn't as it should be: one with a value, else one that is empty.
func handlerKind(content map[string]any) string {
	kinds := []string{"exec", "stream", "http"}
	if at := slices.IndexFunc(kinds, func(kind string) bool { return hasValue(content[kind]) }); at >= 0 {
		return kinds[at]
	}
	for _, kind := range kinds {
		if _, given := content[kind]; given {
			return kind
		}
	}
	return "exec"
}

// hasValue says whether a key's value is something else than none or an empty list.
func hasValue(value any) bool {
	list, is := value.([]any)
	return value != nil && (!is || len(list) > 0)
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

// as returns a value of the kind that it must have, or refuses it. A missing one is not ok either.
func as[T any](c *checker, at, kind string, value any) (v T, ok bool) {
	if v, ok = value.(T); !ok && value != nil {
		c.refuse(at, "must be %s, not %s", kind, kindOf(value))
	}
	return v, ok
}

func (c *checker) asSection(at string, value any, t reflect.Type) (map[string]any, bool) {
	return as[map[string]any](c, at, "a section of keys ("+strings.Join(knownKeys(t), ", ")+")", value)
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
	items, _ := as[[]any](c, at, "a list", value)
	all := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		name := ""
		if m, ok := item.(map[string]any); ok {
			name, _ = m["name"].(string)
		}
		path := element(at, i, name)
		content, ok := c.asSection(path, item, into.Type().Elem())
		if item == nil {
			c.refuse(path, "is empty")
		}
		if ok {
			c.section(spot{path: path, content: content, outer: outer}, all.Index(i))
		}
		c.refused[at] = c.refused[at] || !ok
	}
	if !c.refused[at] {
		into.Set(all)
	}
}

// textList reads a list of texts, or the word that stands for one.
func (c *checker) textList(at string, value any, into reflect.Value, tag reflect.StructTag) {
	if word := tag.Get("word"); word != "" && value == word {
		value, c.words[at] = []any{value}, true
	}
	items, _ := as[[]any](c, at, "a list", value)
	list := make([]string, len(items))
	for i, item := range items {
		path, ok := element(at, i, ""), false
		if list[i], ok = as[string](c, path, "a single value", item); item == nil {
			c.refuse(path, "is empty")
		} else if tag.Get("file") != "" {
			list[i] = c.absolute(list[i])
		}
		c.refused[at] = c.refused[at] || !ok
	}
	if len(list) > 0 && !c.refused[at] {
		into.Set(reflect.ValueOf(list))
	}
	var show any
	switch {
	case c.words[at]:
		show = list[0]
	case len(list) > 0:
		show = texts.Map(list, hiding[tag.Get("hide")])
	}
	c.note(at, show, len(list) > 0, "")
}

// values reads a section with keys of any name. Texts may be secrets, so only their keys are shown.
func (c *checker) values(at string, value any, into reflect.Value, tag reflect.StructTag) {
	section, _ := as[map[string]any](c, at, "a section of keys", value)
	names, all := slices.Sorted(maps.Keys(section)), reflect.MakeMap(into.Type())
	for i, name := range names {
		path := element(at, i, name)
		switch text, ok := as[string](c, path, "a single value", section[name]); {
		case text == "" && (ok || section[name] == nil):
			c.refuse(path, "is empty")
		case ok:
			v, err := c.read(text, into.Type().Elem(), tag)
			if all.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(v)); err != nil {
				c.refuse(path, "%w", err)
			}
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

func (c *checker) single(at string, value any, into reflect.Value, tag reflect.StructTag, outer outside) {
	otherwise := tag.Get("default")
	if words := strings.Fields(tag.Get("words")); otherwise == "" && into.IsZero() && len(words) > 0 {
		otherwise = words[0]
	}
	if outer.value.IsValid() {
		into.Set(outer.value.Convert(into.Type()))
	} else if otherwise != "" {
		v, _ := c.read(otherwise, into.Type(), tag) // one out of bounds means none
		into.Set(reflect.ValueOf(v).Convert(into.Type()))
	}
	kind := "a single value"
	if strings.HasSuffix(at, ".data") {
		kind = `a single value, such as '{"id": 1}' in quotes`
	}
	text, ok := as[string](c, at, kind, value)
	if ok {
		v, err := c.read(text, into.Type(), tag)
		if err != nil {
			c.refuse(at, "%w", err)
		} else {
			into.Set(reflect.ValueOf(v).Convert(into.Type()))
		}
	}
	c.note(at, shownValue(into, tag), ok, outer.path)
}
