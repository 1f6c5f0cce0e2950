package engine

import (
	"database/sql/driver"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
)

// inline appends a statement to b with its parameters inlined. It needs MySQL or MariaDB with the character set utf8mb4 and
// backslash escapes. It returns driver.ErrSkip, with which database/sql prepares the statement, if a question mark isn't a
// parameter or a parameter's type is unknown.
func inline(b []byte, statement string, args []any) ([]byte, error) {
	for _, a := range args {
		mark := strings.IndexByte(statement, '?')
		if mark < 0 {
			return nil, driver.ErrSkip
		}
		b = append(b, statement[:mark]...)
		statement = statement[mark+1:]
		v, err := plain(a)
		if err != nil {
			return nil, err
		}
		if b, err = literal(b, v); err != nil {
			return nil, err
		}
	}
	if len(args) > 0 && strings.IndexByte(statement, '?') >= 0 {
		return nil, driver.ErrSkip
	}
	return append(b, statement...), nil
}

// inASCII passes texts through a session of any character set: as the digits of their bytes, unless they are ASCII.
func inASCII(statement string, args []any) (string, []any) {
	if strings.Count(statement, "?") != len(args) {
		return statement, args
	}
	var b strings.Builder
	sent := make([]any, len(args))
	for i, a := range args {
		before, after, _ := strings.Cut(statement, "?")
		text, _ := a.(string)
		if b.WriteString(before); strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
			b.WriteString("CONVERT(UNHEX(?) USING utf8mb4)")
			sent[i] = hex.EncodeToString([]byte(text))
		} else {
			b.WriteByte('?')
			sent[i] = a
		}
		statement = after
	}
	return b.String() + statement, sent
}

func plain(a any) (any, error) {
	switch v := a.(type) {
	case string, int, int64, uint64, nil:
		return a, nil
	case driver.Valuer:
		return v.Value()
	}
	return driver.DefaultParameterConverter.ConvertValue(a)
}

func literal(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(b, "NULL"...), nil
	case string:
		return quote(b, v), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case uint64:
		return strconv.AppendUint(b, v, 10), nil
	case float64:
		return strconv.AppendFloat(b, v, 'g', -1, 64), nil
	case bool:
		return append(b, strings.ToUpper(strconv.FormatBool(v))...), nil
	case []byte:
		if v == nil {
			return append(b, "NULL"...), nil
		}
		return quote(append(b, "_binary"...), string(v)), nil
	}
	return nil, driver.ErrSkip
}

// Literal returns a value as a literal of MySQL and MariaDB. It fails with driver.ErrSkip for unknown types.
func Literal(value any) (string, error) {
	text, err := literal(nil, value)
	return string(text), err
}

// Quote returns a text as a literal of MySQL and MariaDB with backslash escapes.
func Quote(text string) string { return string(quote(nil, text)) }

// quote escapes as MySQL does, except for the escapes of LIKE.
func quote(b []byte, text string) []byte {
	b = append(b, '\'')
	for {
		at := strings.IndexAny(text, "\x00\n\r\x1a'\"\\")
		if at < 0 {
			break
		}
		b = append(b, text[:at]...)
		switch c := text[at]; c {
		case 0:
			b = append(b, `\0`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\x1a':
			b = append(b, `\Z`...)
		default:
			b = append(b, '\\', c)
		}
		text = text[at+1:]
	}
	return append(append(b, text...), '\'')
}
