package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/texts"
)

// Default is where a Setting comes from that nobody gave.
const Default = "default"

// hidden stands for a value that is or may be a secret.
const hidden = "***"

// Setting is what holds for a key of the config, whoever said so.
type Setting struct {
	// Key is the path of the key, with names for the elements of lists: queues.emails.job_types.send.timeout.
	Key string
	// Value is a string, an int, a float64, a bool, a []string or a map[string]int; nil is none. Durations are strings with
	// their units, paths absolute, secrets hidden.
	Value any
	// From is FILE:LINE, the name of a variable, a flag with its dashes, or Default. Where an outer level gave the value (the
	// queue, or the instance) it is that level's.
	From string
}

// Explain finds, reads and checks the config as Load does, and gives each setting with where it comes from, in the order of
// the file's sections. Settings that the driver of the database doesn't have are not among them.
func Explain(o LoadOptions) ([]Setting, error) {
	_, c, err := read(o)
	if err != nil {
		return nil, err
	}
	return c.explain(), nil
}

// effective is what the checker has read.
type effective struct {
	settings []Setting
	// outer is for a key, or a section, the one whose value holds where this has none.
	outer map[string]string
}

// note notes what holds for a key: the value of a text, or where that is empty what holds without it.
func (c *checker) note(path string, value any, text string) {
	from := c.origin[path]
	switch {
	case text == "":
		from = ""
	case from != "":
	case c.lines[path] == 0: // merged into its section from elsewhere
		from = c.file
	default:
		from = fmt.Sprintf("%s:%d", c.file, c.lines[path])
	}
	c.settings = append(c.settings, Setting{Key: path, Value: value, From: from})
}

// noteHandler notes what a handler is: what the file says there (given), or what holds without that.
func (c *checker) noteHandler(path string, h Handler, given handlerSection) {
	if h.Stream != nil {
		c.note(path+".stream", h.Stream, strings.Join(given.Stream, " "))
	} else {
		c.note(path+".exec", h.Exec, strings.Join(given.Exec, " "))
	}
	c.note(path+".dir", h.Dir, given.Dir)
	env := slices.Clone(h.Env)
	for i, entry := range env {
		if name, _, given := strings.Cut(entry, "="); given {
			env[i] = name + "=" + hidden
		}
	}
	c.noteList(path+".env", env, strings.Join(given.Env, " "))
	c.noteSurroundings(path, h, given)
}

// noteSurroundings notes as whom a handler runs, and within what.
func (c *checker) noteSurroundings(path string, h Handler, given handlerSection) {
	for _, s := range []struct {
		key   string
		value any
		is    bool
		text  string
	}{
		{"user", h.User, h.User != "", given.User},
		{"no_new_privs", !h.NewPrivs, true, given.NoNewPrivs},
		{"limits.memory", texts.Bytes(h.Limits.Memory), h.Limits.Memory > 0, given.Limits.Memory},
		{"limits.open_files", h.Limits.OpenFiles, h.Limits.OpenFiles > 0, given.Limits.OpenFiles},
		{"limits.cpu", formatDuration(h.Limits.CPU), h.Limits.CPU > 0, given.Limits.CPU},
		{"limits.file_size", texts.Bytes(h.Limits.FileSize), h.Limits.FileSize > 0, given.Limits.FileSize},
		{"nice", h.Nice, true, given.Nice},
		{"umask", formatUmask(h.Umask), h.Umask != nil, given.Umask},
	} {
		if !s.is {
			s.value = nil
		}
		c.note(path+"."+s.key, s.value, s.text)
	}
}

// noteList notes a list; an empty one is none.
func (c *checker) noteList(path string, list []string, text string) {
	if len(list) == 0 {
		c.note(path, nil, text)
		return
	}
	c.note(path, list, text)
}

// inherits notes that a section has of the one outside what it does not say itself.
func (c *checker) inherits(section, outside string, keys ...string) {
	for _, key := range keys {
		c.outer[under(section, key)] = under(outside, key)
	}
}

// explain says of each setting where it comes from, and hides secrets. Outer levels were read first.
func (c *checker) explain() []Setting {
	from := map[string]string{}
	for i := range c.settings {
		s := &c.settings[i]
		if s.From == "" {
			s.From = cmp.Or(from[c.outside(s.Key)], Default)
		}
		from[s.Key] = s.From
		switch value := s.Value.(type) {
		case openText:
			s.Value = string(value)
		case string:
			s.Value = withoutSecret(value)
		case []string:
			open := make([]string, len(value))
			for i, text := range value {
				open[i] = withoutSecret(text)
			}
			s.Value = open
		}
	}
	return c.settings
}

// outside is the key of the outer level.
func (c *checker) outside(key string) string {
	if outer, ok := c.outer[key]; ok {
		return outer
	}
	dot := max(0, strings.LastIndex(key, "."))
	if outer, ok := c.outer[key[:dot]]; ok {
		return outer + key[dot:]
	}
	return ""
}

// openText has no secret in it, although it looks as if it had.
type openText string

func withoutSecret(text string) string {
	if mayBeSecret(text) {
		return hidden
	}
	return text
}
