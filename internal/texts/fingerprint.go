package texts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// length is a fingerprint's number of hex digits: among 1,000 kinds of errors, two collide with a probability of 1 in 10,000.
const length = 8

// Fingerprint is eight hex digits that depend only on the Shape of an error's text. It is the same in all versions of hipq.
// It takes some microseconds, however long the text is.
func Fingerprint(text string) string {
	sum := sha256.Sum256([]byte(Shape(text)))
	return hex.EncodeToString(sum[:length/2])
}

// IsFingerprint says whether a text has the form of a fingerprint.
func IsFingerprint(s string) bool {
	return len(s) == length && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })
}

const (
	// FingerprintBytes bounds the bytes of a text that make its shape. A caller that wants a fingerprint need not read more.
	FingerprintBytes = 4096
	// shapeMax bounds the bytes of a shape. It bounds the shape, not the text, so that a text whose number has one more digit
	// ends at the same word.
	shapeMax = 300
	// hole replaces variable parts in a shape.
	hole = '#'
)

// Shape is a text without what differs between errors of one kind: numbers, times, durations, addresses, hex digits, UUIDs
// and other ids, and quoted paths. A # replaces each, a blank replaces white space. It is cut after 300 bytes.
func Shape(text string) string {
	s := shaper{text: text[:min(len(text), FingerprintBytes)]}
	for s.at < len(s.text) && len(s.shape) < shapeMax {
		s.next()
	}
	shape := s.shape[:min(len(s.shape), shapeMax)]
	return strings.ToValidUTF8(string(bytes.TrimRight(shape, " ")), "")
}

// shaper reads a text in one pass.
type shaper struct {
	text  string
	at    int
	shape []byte
	// noAddress is where the last search for an @ ended without one.
	noAddress int
}

// next reads a word, or the text between words.
func (s *shaper) next() {
	rest := s.text[s.at:]
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case isSpace(rest[0]):
		s.at++
		if n := len(s.shape); n > 0 && s.shape[n-1] != ' ' {
			s.shape = append(s.shape, ' ')
		}
	case s.quotedPath(closing[r], size):
		s.hole()
	case isWord(rest[0]):
		s.word()
	default:
		s.at += size
		s.shape = append(s.shape, rest[:size]...)
	}
}

// hole adds a hole. It merges holes joined by a mark, such as those of a date, an address or a decimal number.
func (s *shaper) hole() {
	n := len(s.shape)
	switch {
	case n >= 1 && s.shape[n-1] == hole:
		return
	case n >= 2 && s.shape[n-2] == hole && strings.IndexByte(".,:-+/_", s.shape[n-1]) >= 0:
		s.shape = s.shape[:n-1]
		return
	}
	s.shape = append(s.shape, hole)
}

const quoteMax = 500

// closing has the end of each quotation mark.
var closing = map[rune]rune{'"': '"', '\'': '\'', '`': '`', '“': '”', '‘': '’', '«': '»'}

// quotedPath reads a quotation with this end that contains a path, if one begins here. It ignores apostrophes.
func (s *shaper) quotedPath(closing rune, size int) bool {
	if closing == 0 || s.at > 0 && isWord(s.text[s.at-1]) {
		return false
	}
	within := s.text[s.at+size:]
	within = within[:min(len(within), quoteMax)]
	end := strings.IndexRune(within, closing)
	if line := strings.IndexByte(within, '\n'); end < 0 || line >= 0 && line < end {
		return false
	}
	if !strings.ContainsAny(within[:end], `/\`) {
		return false
	}
	s.at += size + end + utf8.RuneLen(closing)
	return true
}

// word reads a word of letters and digits, or the mail address or UUID that it begins.
func (s *shaper) word() {
	if n := s.mailAddress(); n > 0 {
		s.at += n
		s.hole()
		return
	}
	rest := s.text[s.at:]
	if isUUID(rest) {
		s.at += uuidLen
		s.hole()
		return
	}
	n := 0
	for n < len(rest) && isWord(rest[n]) {
		n++
	}
	s.at += n
	variable := isVariable(rest[:n])
	for i := range n { // a name may have a number in it, such as user42
		if variable || isDigit(rest[i]) {
			s.hole()
		} else {
			s.shape = append(s.shape, rest[i])
		}
	}
}

// mailAddress is the length of the mail address that begins here; 0 if none does.
func (s *shaper) mailAddress() int {
	if s.at < s.noAddress {
		return 0
	}
	rest, n := s.text[s.at:], 0
	for n < len(rest) && (isWord(rest[n]) || strings.IndexByte(".%+-", rest[n]) >= 0) {
		n++
	}
	if n == len(rest) || rest[n] != '@' {
		s.noAddress = s.at + n
		return 0
	}
	host := n + 1
	for n = host; n < len(rest) && (isWord(rest[n]) || rest[n] == '-' || rest[n] == '.' && n+1 < len(rest) && isWord(rest[n+1])); {
		n++
	}
	if n == host {
		return 0
	}
	return n
}

const uuidLen = 36

func isUUID(s string) bool {
	begins := len(s) >= uuidLen && s[8] == '-' && (len(s) == uuidLen || !isWord(s[uuidLen]))
	return begins && uuid.Validate(s[:uuidLen]) == nil
}

var calendar = strings.Fields("Mon Tue Wed Thu Fri Sat Sun Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")

// isVariable says whether a word is a number, a duration, part of a time, hex digits, or a generated id.
func isVariable(word string) bool {
	if slices.Contains(calendar, word) {
		return true
	}
	digits, hex, parts := 0, 0, 1
	for i := range len(word) {
		if isDigit(word[i]) {
			digits++
		}
		if isHex(word[i]) {
			hex++
		}
		if i > 0 && isDigit(word[i]) != isDigit(word[i-1]) {
			parts++
		}
	}
	switch {
	case hex == len(word) && (len(word) >= 8 || digits > 0): // no word of a language is 8 letters from a to f
		return true
	case digits == 0:
		return false
	case len(word) > 2 && (strings.HasPrefix(word, "0x") || strings.HasPrefix(word, "0X")):
		return true
	case parts >= 4 || len(word) >= 16: // letters and digits alternate
		return true
	}
	return isMeasured(word)
}

// isMeasured says whether a word is numbers with units of time, or like 21T03 and 22Z.
func isMeasured(word string) bool {
	if !isDigit(word[0]) {
		return false
	}
	for _, unit := range strings.FieldsFunc(word, func(r rune) bool { return r >= '0' && r <= '9' }) {
		if !slices.Contains([]string{"ns", "us", "ms", "s", "m", "h", "d", "w", "T", "Z"}, unit) {
			return false
		}
	}
	return true
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

func isWord(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
