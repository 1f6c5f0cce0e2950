package texts_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
)

// TestShape lists, by shape, texts of the same kind of error.
func TestShape(t *testing.T) {
	for want, list := range map[string][]string{
		"":                            {"", " \n"},
		"exit status #: no such file": {"exit status 65: no such file", "exit  status 1:\n no such file\n"},
		"SMTP # from #: refused":      {"SMTP 550 from 10.0.0.1:25: refused", "SMTP 4 from 192.168.17.200:2525: refused"},
		"timeout after #":             {"timeout after 30s", "timeout after 1m0s", "timeout after 1h2m3.5s", "timeout after 250ms"},
		"since # at #":                {"since 2026-11-21T03:01:22Z at 5", "since 2026-11-21T03:01:22.415+01:00 at 17", "since 2026-11-21 at 1.5e"},
		"at # #: late":                {"at 2026-11-21 03:01:22: late", "at 2025-01-01 23:59:59.123456: late"},
		"#, # # # # GMT":              {"Sat, 22 Nov 2026 07:30:23 GMT", "Sun, 1 Mar 2027 17:00:00 GMT"},
		"order # is gone":             {"order 3f2a91bc-0000-4abc-8def-deadbeefcafe is gone", "order deadbeef-abcd-abcd-abcd-abcdefabcdef is gone", "order 0xDEADBEEF is gone", "order d41d8cd98f00b204e9800998ecf8427e is gone", "order feedface is gone", "order 7 is gone", "order kX93jd02Lm is gone"},
		"no such user: #":             {"no such user: bob@example.org", "no such user: Ann.B-C+tag@mail.example.co.uk"},
		"user#, table#":               {"user42, table7", "user5, table12345"},
		"open #: no such file":        {`open "/var/spool/a.txt": no such file`, `open '/x': no such file`, "open `C:\\temp\\x y`: no such file", "open “/srv/ü”: no such file"},
		`unknown column "name"`:       {`unknown column "name"`},
		"it can't be read":            {"it can't be read"},
		"[#] (#) {#}":                 {"[12] (0.5) {3,000}", "[1] (1,234.5) {7}"},
		"Fehler über #":               {"Fehler über 7"},
		"a face, a bad facade":        {"a face, a bad facade"},
		"connection to db-eu refused": {"connection to db-eu refused"},
	} {
		for _, text := range list {
			dbtest.Same(t, texts.Shape(text), want, "the shape of %q", text)
		}
	}
}

// TestOf pins fingerprints: mails, filters in scripts and another host's hipq may contain them.
func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"exit status 65: no such file":  "72ccad79",
		"timeout after 30s":             "9c61b22c",
		"worker lost: its lock expired": "272d0ad4",
		"cancelled":                     "8b47045e",
	} {
		got := texts.Fingerprint(text)
		dbtest.Ensure(t, got == want && texts.IsFingerprint(got), "the fingerprint of %q is %s, was %s", text, got, want)
	}
	for _, s := range []string{"", "3f2a91b", "3f2a91bcd", "3F2A91BC", "3f2a91bg"} {
		dbtest.Ensure(t, !texts.IsFingerprint(s), "%q is taken for a fingerprint", s)
	}
}

// TestShapeOfLong: text after a shape's end makes no difference, nor does the length of a number before it.
func TestShapeOfLong(t *testing.T) {
	text := func(number string) string { return "order " + number + " of " + strings.Repeat("long ", 1000) }
	want := texts.Fingerprint(text("1"))
	for _, number := range []string{"22", "333", strings.Repeat("4", 200)} {
		dbtest.Same(t, texts.Fingerprint(text(number)+number), want, "with %d digits", len(number))
	}
	dbtest.Ensure(t, texts.Fingerprint(strings.Repeat("a ", 10_000)) != texts.Fingerprint(strings.Repeat("b ", 10_000)),
		"texts that differ from the beginning are alike")
}

// TestShapeOfAny: a shape is short, valid, one line, and without digits.
func TestShapeOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-f0-9"'/@. :-]{1,30}`), rapid.Just("\xff")), 0, 40)
		shape := texts.Shape(strings.Join(pieces.Draw(t, "pieces"), ""))
		if len(shape) > 300 || !utf8.ValidString(shape) || strings.ContainsAny(shape, "\n\t") || strings.ContainsAny(shape, "0123456789") {
			t.Fatalf("%q", shape)
		}
	})
}

// A shell reads one word, equal to the original text.
func TestWord(t *testing.T) {
	for text, want := range map[string]string{
		"/etc/hipq/a-b_c.yaml": "/etc/hipq/a-b_c.yaml", "": "''", "a b": "'a b'", "$(id)": "'$(id)'", "a'b": `'a'\''b'`,
		"größe": "'größe'", "a\nb": "'a\nb'", "~": "'~'", "*": "'*'", "ａ": "'ａ'",
	} {
		got := texts.ShellWord(text)
		dbtest.Same(t, got, want, "%q", text)
		out, err := exec.Command("sh", "-c", "printf '%s.' "+got).Output()
		dbtest.Ensure(t, err == nil && string(out) == text+".", "%q: the shell takes %s for %q: %v", text, got, out, err)
	}
}

func TestDuration(t *testing.T) {
	const second, minute, hour = 1000, 60_000, 3_600_000
	for ms, want := range map[int64]string{
		0: "0 s", 999: "999 ms", second: "1 s", 1240: "1.2 s", 3_008: "3 s", 9_949: "9.9 s", 9_950: "10 s", 59_499: "59 s", 59_500: "1 min",
		minute: "1 min", 61 * second: "1 min 1 s", hour - 501: "59 min 59 s", hour - 500: "1 h", 2*hour + 5*minute: "2 h 5 min",
		24*hour - 30*second: "1 d", 24 * hour: "1 d", 52 * hour: "2 d 4 h",
	} {
		dbtest.Same(t, texts.Duration(time.Duration(ms)*time.Millisecond), want, "%d ms", ms)
	}
}
