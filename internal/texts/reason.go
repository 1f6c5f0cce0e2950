package texts

import (
	"strings"
)

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

// joined is a multi-line message as one line, without lines that only mark a position in the line above.
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

// traces find the last trace in the format of each language.
var traces = []func(lines []string) trace{phpTrace, pythonTrace, pythonGroup, rubyTrace, goTrace, perlTrace, stackTrace}

var (
	// exception matches an exception's name and what follows before its message.
	exception = Pattern(`\b[\w$.\\]*(?:Error|Exception|Throwable)(?: \[\w+\])?(?::|$| \{$)`)
	// uncaught matches what precedes the name of an uncaught exception.
	uncaught = Pattern(`^(?:Exception in thread ".*?" |Unhandled exception\. |\[ERROR\] FATAL UNHANDLED EXCEPTION: |.*Fatal error: +Uncaught )`)

	stackFrame = Pattern(`^\s+at .*(?:\(|:\d+:\d+)`)
	phpFrame   = Pattern(`^#\d+ `)
	phpThrown  = Pattern(`^  thrown in .* on line \d+$`)
	rubyHead   = Pattern("^\\S.*:\\d+:in [`'].*': .*\\([A-Z][\\w:]*\\)$")
	perlFrame  = Pattern(`^\t.* called at .* line \d+\.?$|^BEGIN failed--compilation aborted at |^Compilation failed in require at |^Execution of .* aborted due to compilation errors\.$`)
	perlHead   = Pattern(` at \S+ line \d+(?:, <\w+> (?:line|chunk) \d+)?\.$`)
)

// phpTrace: the first cause, its frames, then "Next" and the same for its consequence.
func phpTrace(lines []string) (t trace) {
	last := lastWith(lines, phpThrown().MatchString)
	if t.end = last + 1; last < 0 { // or the program printed an exception itself
		last, t.end = len(lines), len(lines)
	}
	isFrame := func(line string) bool { return phpFrame().MatchString(line) || line == "Stack trace:" }
	for {
		for last > 0 && phpFrame().MatchString(lines[last-1]) {
			last--
		}
		if last < 2 || lines[last-1] != "Stack trace:" {
			return t
		}
		last--
		start := messageStart(lines, last-1, exception().MatchString, isFrame)
		text, next := strings.CutPrefix(joined(lines[start:last]), "Next ")
		t.cause = uncaught().ReplaceAllString(text, "")
		if t.what == "" {
			t.what = t.cause
		}
		if !next {
			return t
		}
		for last = start; last > 0 && lines[last-1] == ""; last-- {
		}
	}
}

const pythonHead = "Traceback (most recent call last):"

// pythonTrace: frames and a message of the first cause, a sentence, then the same for its consequence.
func pythonTrace(lines []string) (t trace) {
	t.open = true
	for end := len(lines); ; {
		first := lastWith(lines[:end], func(line string) bool { return line == pythonHead }) + 1
		start := first
		for start < end && isIndented(lines[start]) {
			start++
		}
		if first == 0 || start == first || start == end || end-start > messageLines {
			return t
		}
		if t.cause = joined(lines[start:end]); t.what == "" {
			t.what, t.end = lines[start], start+1
			t.cause = t.what
		}
		// between empty lines: "During handling of the above exception, …", "The above exception was the direct cause of …"
		if first < 4 || !strings.Contains(lines[first-3], " above exception") {
			return t
		}
		end = first - 4
	}
}

// pythonGroup: a tree of exceptions. The first one in the group is the cause.
func pythonGroup(lines []string) (t trace) {
	t.end = len(lines)
	if t.end == 0 || !strings.HasSuffix(lines[t.end-1], "+------------------------------------") {
		return t
	}
	first := lastWith(lines, func(line string) bool { return strings.TrimSpace(line) == "+ Exception Group "+pythonHead }) + 1
	for _, line := range lines[first:] {
		text, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "| ")
		switch {
		case !ok || isIndented(text) || text == pythonHead:
		case t.what == "":
			t.what = text
		default:
			t.cause = text
			return t
		}
	}
	return t
}

// rubyTrace: the exception, its frames, then the same for its cause.
func rubyTrace(lines []string) (t trace) {
	isFrame := func(line string) bool {
		return strings.HasPrefix(line, "\tfrom ") || strings.HasPrefix(line, "\t ... ")
	}
	last := lastWith(lines, isFrame, rubyHead().MatchString)
	t.end, t.open = last+1, last >= 0 && !isFrame(lines[last])
	for last >= 0 {
		for last >= 0 && isFrame(lines[last]) {
			last--
		}
		start := messageStart(lines, last, rubyHead().MatchString, isFrame)
		if start < 0 || !rubyHead().MatchString(lines[start]) {
			break
		}
		if t.what = joined(lines[start : last+1]); t.cause == "" {
			t.cause = t.what
		}
		last = start - 1
	}
	return t
}

// goTrace: "panic: " or "fatal error: " and a message, perhaps a signal, then goroutines.
func goTrace(lines []string) (t trace) {
	t.end = lastWith(lines, func(line string) bool { return strings.HasPrefix(line, "\t") }) + 1
	isGoroutine := func(line string) bool { return strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(line, ":") }
	isHead := func(line string) bool {
		return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	}
	start := lastWith(lines[:t.end], isHead)
	if start < 0 || lastWith(lines[start:t.end], isGoroutine) < 0 {
		return t
	}
	end := start + 1
	for lines[end] != "" && !strings.HasPrefix(lines[end], "[signal ") && !isGoroutine(lines[end]) {
		end++
	}
	t.what = joined(lines[start:end])
	return t
}

// perlTrace: the message, then perhaps the callers, or what consequently failed to compile.
func perlTrace(lines []string) (t trace) {
	last := lastWith(lines, perlHead().MatchString, perlFrame().MatchString)
	t.end = last + 1
	for last >= 0 && perlFrame().MatchString(lines[last]) {
		last--
	}
	if last >= 0 {
		t.what = lines[last]
	}
	return t
}

// stackTrace: the message, then frames that begin with "at", as in Node.js, Java and .NET.
func stackTrace(lines []string) (t trace) {
	t.end = len(lines)
	found := false
	for i := len(lines) - 1; i >= 0; i-- {
		line := lines[i]
		text, isCause := causeIn(line)
		switch {
		case isCause:
			if t.cause == "" { // the lowest is the first
				t.cause = joined([]string{text})
			}
		case stackFrame().MatchString(line), strings.HasPrefix(line, "Node.js v"):
			found = true
		case line == "", isIndented(line), line[0] == '}', strings.HasPrefix(line, "(Use `node "), strings.HasPrefix(line, "Emitted '"):
		case !found:
			return t
		default:
			start := messageStart(lines, i, exception().MatchString, stackFrame().MatchString)
			message := lines[start : i+1]
			text, isCause := causeIn(message[0])
			if !isCause {
				t.what = uncaught().ReplaceAllString(joined(message), "")
				return t
			}
			if t.cause == "" {
				t.cause = joined(append([]string{text}, message[1:]...))
			}
			i = start
		}
	}
	return t
}

func causeIn(line string) (cause string, ok bool) {
	for _, mark := range []string{"Caused by: ", " ---> "} {
		if cause, ok = strings.CutPrefix(line, mark); ok {
			return cause, true
		}
	}
	return strings.CutPrefix(strings.TrimSpace(line), "[cause]: ")
}
