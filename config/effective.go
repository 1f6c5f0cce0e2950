package config

import (
	"cmp"
	"fmt"
	"strings"
)

// Default is the source of a Setting that was not given.
const Default = "default"

// hidden stands for a value that is or may be a secret.
const hidden = "***"

// Setting is the value of a key of the config, from any source.
type Setting struct {
	// Key is the path of the key, with names for the elements of lists: queues.emails.job_types.send.timeout.
	Key string `json:"key"`
	// Value is a string, an int, a float64, a bool, a []string or a map[string]int; nil is none. Durations are strings with
	// their units, paths absolute, secrets hidden.
	Value any `json:"value"`
	// From is FILE:LINE, the name of a variable, a flag with its dashes, or Default. Where an outer level gave the value (the
	// queue, or the instance) it is that level's.
	From string `json:"from"`
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

// noteIf is note for a value that there is; else there is none.
func (c *checker) noteIf(is bool, path string, value any, text string) {
	if !is {
		value = nil
	}
	c.note(path, value, text)
}

// noteList notes a list; an empty one is none.
func (c *checker) noteList(path string, list []string) {
	c.noteIf(len(list) > 0, path, list, strings.Join(list, " "))
}

// noteAgain notes for a section what was noted for another, whose values hold there too.
func (c *checker) noteAgain(section, outside string) {
	for _, s := range c.settings {
		if key, ok := strings.CutPrefix(s.Key, outside+"."); ok {
			c.settings = append(c.settings, Setting{Key: section + "." + key, Value: s.Value, From: s.From})
		}
	}
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
