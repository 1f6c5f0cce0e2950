package config

import (
	"regexp"
	"strconv"

	"github.com/hipq/hipq/internal/texts"
)

var sizeForm = regexp.MustCompile(`^([0-9]{1,9})(KiB|MiB|GiB)$`)

// maxSize is beyond what anybody means.
const maxSize = 1 << 50

// size reads a number of bytes with its unit; an empty text is 0.
func (c *checker) size(path, text string, low int64) (bytes int64) {
	if text == "" {
		return 0
	}
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		c.refuse(path, "%s is not a size; write a whole number and a unit, KiB, MiB or GiB, such as 512MiB", shown(text))
		return 0
	}
	bytes, _ = strconv.ParseInt(m[1], 10, 64) // digits, and few enough
	bytes *= map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[m[2]]
	if bytes < low || bytes > maxSize {
		c.refuse(path, "%s is out of range (%s to %s)", shown(text), texts.Bytes(low), texts.Bytes(maxSize))
	}
	return bytes
}
