package texts

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// length is how many hex digits a fingerprint has: a thousand kinds of errors have two alike once in ten thousand times.
const length = 8

// Fingerprint is the fingerprint of an error's text: eight hex digits. It is that of the text's Shape, is the same in all versions of
// hipq, and costs a few microseconds, however long the text is.
func Fingerprint(text string) string {
	sum := sha256.Sum256([]byte(Shape(text)))
	return hex.EncodeToString(sum[:length/2])
}

// IsFingerprint says whether a text can be a fingerprint.
func IsFingerprint(s string) bool {
	return len(s) == length && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })
}
