package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hipq/hipq/schema"
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
	return c.settings, nil
}

// note records the effective value of a key: its own, or that of the key outer, or a default.
func (c *checker) note(path string, value any, own bool, outer string) {
	from := c.origin[path]
	switch {
	case !own:
		from = cmp.Or(c.from[outer], Default)
	case from != "":
	case c.lines[path] == 0: // merged into its section from elsewhere
		from = c.file
	default:
		from = fmt.Sprintf("%s:%d", c.file, c.lines[path])
	}
	c.from[path], c.settings = from, append(c.settings, Setting{Key: path, Value: value, From: from})
}

// noteAgain copies the settings of one section to another that inherits them.
func (c *checker) noteAgain(section, outside string) {
	for _, s := range c.settings {
		if key, ok := strings.CutPrefix(s.Key, outside+"."); ok {
			c.settings = append(c.settings, Setting{Key: section + "." + key, Value: s.Value, From: s.From})
		}
	}
}

// forget removes the settings of a key or section that isn't used.
func (c *checker) forget(path string) {
	c.settings = slices.DeleteFunc(c.settings, func(s Setting) bool { return s.Key == path || strings.HasPrefix(s.Key, path+".") })
}

// show replaces the value of a setting by the one that has effect.
func (c *checker) show(path string, value any, from string) {
	n := slices.IndexFunc(c.settings, func(s Setting) bool { return s.Key == path })
	c.settings[n].Value, c.settings[n].From = value, from
}

// hiding shows values without their secrets, by the tag hide.
var hiding = map[string]func(string) string{
	"": func(text string) string {
		if mayBeSecret(text) {
			return hidden
		}
		return text
	},
	"dsn": schema.WithoutPassword,
	"env": func(entry string) string {
		if name, _, given := strings.Cut(entry, "="); given {
			return name + "=" + hidden
		}
		return entry
	},
	"url": func(text string) string { // anybody who knows its path can report that all is well
		if u, err := url.Parse(text); err == nil {
			return u.Scheme + "://" + u.Host + "/" + hidden
		}
		return hidden
	},
}
