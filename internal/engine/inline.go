package engine

import (
	"database/sql/driver"
	"strconv"
	"strings"
)

// inline writes parameters into a statement. It is for MySQL and MariaDB, in a session whose character set is utf8mb4 and in
// which a backslash escapes. A statement whose question marks are not all parameters, or a parameter of another kind than
// hipq has, is driver.ErrSkip, with which database/sql has the statement prepared.
func inline(query string, args []driver.NamedValue) (string, error) {
	if strings.Count(query, "?") != len(args) {
		return "", driver.ErrSkip
	}
	var b strings.Builder
	size := len(query)
	for _, a := range args {
		if text, ok := a.Value.(string); ok {
			size += len(text)
		}
		size += 8
	}
	b.Grow(size)
	for _, a := range args {
		before, after, _ := strings.Cut(query, "?")
		b.WriteString(before)
		query = after
		switch v := a.Value.(type) {
		case nil:
			b.WriteString("NULL")
		case int64:
			b.WriteString(strconv.FormatInt(v, 10))
		case uint64:
			b.WriteString(strconv.FormatUint(v, 10))
		case float64:
			b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
		case bool:
			b.WriteString(strings.ToUpper(strconv.FormatBool(v)))
		case string:
			quote(&b, v)
		case []byte:
			if v == nil {
				b.WriteString("NULL")
				continue
			}
			b.WriteString("_binary")
			quote(&b, string(v))
		default:
			return "", driver.ErrSkip
		}
	}
	b.WriteString(query)
	return b.String(), nil
}

// Quote is a text as a literal of MySQL and MariaDB, where a backslash escapes.
func Quote(text string) string {
	var b strings.Builder
	quote(&b, text)
	return b.String()
}

// escapes are those of MySQL, but for those of LIKE.
var escapes = strings.NewReplacer("\x00", `\0`, "\n", `\n`, "\r", `\r`, "\x1a", `\Z`, `'`, `\'`, `"`, `\"`, `\`, `\\`)

func quote(b *strings.Builder, text string) {
	b.WriteByte('\'')
	_, _ = escapes.WriteString(b, text) // a Builder takes all
	b.WriteByte('\'')
}
