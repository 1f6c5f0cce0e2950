package config

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/hipq/hipq/internal/texts"
)

// Default is the From of a Setting that nothing has set.
const Default = "default"

// hidden replaces a value that is or may be a secret.
const hidden = "***"

// Setting is the effective value of a config key.
type Setting struct {
	// Key is the path of the key, with the names of list elements: queues.emails.job_types.send.timeout.
	Key string `json:"key"`
	// Value is a string, an int, a float64, a bool, a []string or a map[string]int; nil means none. Durations are
	// strings with units, paths are absolute, secrets hidden.
	Value any `json:"value"`
	// From is FILE:LINE, a variable's name, a flag with its dashes, or Default. If the value is inherited from the
	// queue or the instance, it is the outer key's.
	From string `json:"from"`
}

// Explain finds, reads and checks the config as Load does. It returns each setting and where it comes from, in the
// order of the file's sections, except those for another database driver.
func Explain(o LoadOptions) ([]Setting, error) {
	_, c, err := read(o)
	if err != nil {
		return nil, err
	}
	return c.explain(), nil
}

// note records the effective value of a key. An empty text means that the key isn't set itself.
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

// noteIf records value, or nil if it doesn't apply.
func (c *checker) noteIf(is bool, path string, value any, text string) {
	if !is {
		value = nil
	}
	c.note(path, value, text)
}

// noteList records a list; an empty one as nil.
func (c *checker) noteList(path string, list []string) {
	c.noteIf(len(list) > 0, path, list, strings.Join(list, " "))
}

// noteAgain copies the settings of one section to another that inherits them.
func (c *checker) noteAgain(section, outside string) {
	for _, s := range c.settings {
		if key, ok := strings.CutPrefix(s.Key, outside+"."); ok {
			c.settings = append(c.settings, Setting{Key: section + "." + key, Value: s.Value, From: s.From})
		}
	}
}

// inherits records that a section inherits keys from an outer one.
func (c *checker) inherits(section, outside string, keys ...string) {
	for _, key := range keys {
		c.outer[under(section, key)] = under(outside, key)
	}
}

// explain adds where each setting comes from, and hides secrets. Outer levels were read first.
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
			s.Value = texts.Map(value, withoutSecret)
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

// openText looks like a secret, but isn't.
type openText string

func withoutSecret(text string) string {
	if mayBeSecret(text) {
		return hidden
	}
	return text
}
