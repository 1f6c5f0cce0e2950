package texts

import "strings"

// maxWhat bounds, in bytes, what a reason quotes of a trace if it has more to say.
const maxWhat = 250

// Reason finds why a program failed in the end of its output, given as whole lines of valid UTF-8. By default it is last, the
// last line, which the caller passes separately because text may cut it. If text ends in a trace of an uncaught exception, a
// panic or the like, the reason is the exception and its first cause. chose says that the program chose its exit status, so
// its last output was intended.
func Reason(text, last string, chose bool) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, " \t\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:] // after what was overwritten
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	for _, find := range traces {
		t := find(lines)
		if t.what == "" {
			continue
		}
		rest := lines[t.end:]
		switch {
		case len(rest) == 0:
		case chose:
			return last
		case t.open && len(rest) < messageLines:
			t.what = joined(append([]string{t.what}, rest...))
		default:
			text := t.String()
			return strings.ToValidUTF8(text[:min(len(text), maxWhat)], "") + " … " + last
		}
		return t.String()
	}
	return last
}

// trace is a program's output about an uncaught exception.
type trace struct {
	what, cause string
	// end is the index after its last line. More may follow: some languages print buffered standard output only at exit.
	end int
	// open says that its message comes last, so that what follows may belong to it.
	open bool
}

func (t trace) String() string {
	if t.cause == "" || strings.Contains(t.what, t.cause) {
		return t.what
	}
	return t.what + " (caused by " + t.cause + ")"
}

// messageLines bounds a message's lines, to separate it from earlier and later output.
const messageLines = 12

// joined is a multi-line message as one line, without lines that only mark a place in the line above.
func joined(lines []string) string {
	var parts []string
	for _, line := range lines {
		if line = strings.TrimSpace(line); strings.Trim(line, "^~") != "" {
			parts = append(parts, line)
		}
	}
	return strings.TrimSuffix(strings.Join(parts, " "), " {")
}

// messageStart finds the first line of the message that ends at lines[end]: the nearest beginning, unless a line comes first
// that precedes any message. Otherwise it is that line.
func messageStart(lines []string, end int, beginning, before func(string) bool) int {
	for i := end; i >= 0 && i > end-messageLines && !before(lines[i]); i-- {
		if beginning(lines[i]) {
			return i
		}
	}
	return end
}

// lastWith is the index of the last line that satisfies one of the functions; -1 if none does.
func lastWith(lines []string, is ...func(string) bool) int {
	for i := len(lines) - 1; i >= 0; i-- {
		for _, f := range is {
			if f(lines[i]) {
				return i
			}
		}
	}
	return -1
}

func isIndented(line string) bool {
	return strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
}
