package texts

import "strings"

// maxWhat is how much of what a trace tells goes into a reason that has more to say, in bytes.
const maxWhat = 250

// Reason says why a program failed, by the end of what it printed, in whole lines of valid UTF-8. That is the last line, which is
// given besides, since there it may be cut off. But where the text ends in what a language prints of an uncaught exception, a
// panic or the like, whose last lines say where it happened, it is what happened, and what caused that at first. chose says that
// the program chose its exit status: then what it printed last was meant.
func Reason(text, last string, chose bool) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, " \t\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:] // behind what was drawn over
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

// trace is what a program has printed of an uncaught exception.
type trace struct {
	what, cause string
	// end is behind its last line. There may be more: some languages keep back what was printed to standard output until
	// the program ends. open says that its message comes last, so that what follows may belong to that.
	end  int
	open bool
}

func (t trace) String() string {
	if t.cause == "" || strings.Contains(t.what, t.cause) {
		return t.what
	}
	return t.what + " (caused by " + t.cause + ")"
}

// messageLines is how many lines a message may have, at most, to be told from what was printed before or after it.
const messageLines = 12

// joined is a message of several lines as one, without those that only mark a place in the one above.
func joined(lines []string) string {
	var parts []string
	for _, line := range lines {
		if line = strings.TrimSpace(line); strings.Trim(line, "^~") != "" {
			parts = append(parts, line)
		}
	}
	return strings.TrimSuffix(strings.Join(parts, " "), " {")
}

// messageStart is where the message begins whose last line is lines[end]: at the nearest line that is a beginning, unless a
// line comes first that is before any message; else it is that one line.
func messageStart(lines []string, end int, beginning, before func(string) bool) int {
	for i := end; i >= 0 && i > end-messageLines && !before(lines[i]); i-- {
		if beginning(lines[i]) {
			return i
		}
	}
	return end
}

// lastWith is the last line for which one of the functions is true; -1 is none.
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
