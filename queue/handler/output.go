package handler

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// keepOutput is how much of what a handler prints is kept, in bytes: the end of it.
	keepOutput = 16 << 10
	// maxReply is how long the last line may be, in bytes, to be read as a reply.
	maxReply = 1 << 20
)

// output keeps the end of what a program prints, in memory that doesn't grow: but for the beginning of a line that is longer
// and may be a reply, if it is the last.
type output struct {
	buf [2 * keepOutput]byte
	n   int   // so much of buf is filled
	cut int64 // so much was dropped
	// within says that buf begins within a line. If that begins like a reply, begin is what was dropped of it, up to
	// maxReply; lost says that there was more.
	within, lost bool
	begin        []byte
	// take, if not nil, gets each line, but of those that are too long, and says which of them are not to be kept. line is where
	// the line begins that has no end yet; -1 is before buf.
	take func(line []byte) bool
	line int
}

// Room is where the next bytes go; it is never empty. Took says how many have come.
func (o *output) Room() []byte {
	if o.n == len(o.buf) {
		o.keepBeginning()
		o.n = copy(o.buf[:], o.buf[keepOutput:])
		o.cut += keepOutput
		o.line = max(-1, o.line-keepOutput)
	}
	return o.buf[o.n:]
}

// Took takes note of so many bytes. It does so while the program runs, so that lines are taken as they come.
func (o *output) Took(n int) {
	if o.take == nil {
		o.n += n
		return
	}
	from, end, to := o.n, o.n+n, o.n
	for from < end {
		next := end
		i := bytes.IndexByte(o.buf[from:end], '\n')
		if i >= 0 {
			next = from + i + 1
		}
		if to < from {
			copy(o.buf[to:], o.buf[from:next])
		}
		to, from = to+next-from, next
		if i < 0 {
			break
		}
		if o.line >= 0 && o.take(o.buf[o.line:to]) {
			to = o.line
		}
		o.line = to
	}
	o.n = to
}

// takeRest has the last line taken, which has no end.
func (o *output) takeRest() {
	if o.take != nil && o.line >= 0 && o.line < o.n && o.take(o.buf[o.line:o.n]) {
		o.n = o.line
	}
}

// logged adds a text to a log, of which nil is an empty one.
func logged(log *output, text []byte) *output {
	if log == nil {
		log = new(output)
	}
	for len(text) > 0 {
		n := copy(log.Room(), text)
		log.Took(n)
		text = text[n:]
	}
	return log
}

// keepBeginning keeps what Room is about to drop of the last line.
func (o *output) keepBeginning() {
	line := o.buf[:]
	if start := lastLineStart(line); start > 0 {
		o.within, o.lost, o.begin = false, false, o.begin[:0]
		line = line[start:]
	}
	part := line[:max(0, len(line)-keepOutput)]
	if len(o.begin) > 0 || !o.within && likeReply(line) {
		fits := part[:min(len(part), maxReply-len(o.begin))]
		o.begin = append(o.begin, fits...)
		o.lost = o.lost || len(trimRight(part)) > len(fits)
	}
	o.within = o.within || len(part) > 0
}

// likeReply says whether a line begins like a JSON object.
func likeReply(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("{")) }

// lastLineStart is where the last line begins that isn't empty; 0 if all are.
func lastLineStart(text []byte) int {
	text = trimRight(text)
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return 0 // in a flood without lines this is faster
	}
	return bytes.LastIndexAny(text, "\r\n") + 1
}

// trimRight cuts off the spaces that TrimSpace does, and is faster where there are many.
func trimRight(text []byte) []byte {
	return bytes.TrimRightFunc(bytes.TrimRight(text, " \t\r\n"), unicode.IsSpace)
}

type printed struct {
	// text is what is kept of it, and clean; cut says that a note comes first, and then perhaps the rest of a line.
	text string
	cut  bool
	// last is its last line, by itself, because it may be longer: whole if it begins with a brace, but for what is beyond
	// maxReply. Else it may be only the end of that line.
	last string
	// long says that last is longer than a reply may be.
	long bool
	// left are notes of the processes that the program has left behind.
	left string
}

// whole is the text from the first line on that is whole.
func (p printed) whole() string {
	text := p.text
	if p.cut {
		_, text, _ = strings.Cut(text, "\n")
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

func (o *output) end() printed {
	o.takeRest()
	all := o.buf[:o.n]
	kept := all[max(0, len(all)-keepOutput):]
	cut := o.cut + int64(len(all)-len(kept))
	if cut == 0 {
		text := clean(string(kept))
		return printed{text: text, last: lastLine(text)}
	}
	// don't begin within a rune
	for range utf8.UTFMax - 1 {
		if utf8.RuneStart(kept[0]) {
			break
		}
		kept, cut = kept[1:], cut+1
	}
	p := printed{cut: true, text: fmt.Sprintf("[%d bytes cut]\n%s", cut, clean(string(kept)))}
	start := lastLineStart(all)
	switch {
	case start > 0 || !o.within:
		p.last = lastLine(clean(string(all[start:])))
	case len(o.begin) == 0:
		p.last = "…" + lastLine(clean(string(all)))
	default:
		line := strings.TrimSpace(string(o.begin) + string(all))
		p.last, p.long = lastLine(clean(line)), o.lost || len(line) > maxReply
	}
	return p
}

const replacement = string(utf8.RuneError)

// clean makes of any bytes a text that every database takes: valid UTF-8 without NUL.
func clean(text string) string {
	return withoutNUL(strings.ToValidUTF8(text, replacement))
}

// withoutNUL makes a text fit for the environment, where a NUL would end it.
func withoutNUL(text string) string {
	return strings.ReplaceAll(text, "\x00", replacement)
}

// quoted is as much of a text as goes into an error, with a mark if that isn't all.
func quoted(text string) string {
	if cut := head(text, maxReason); cut != text {
		return cut + "…"
	}
	return text
}

// head is the beginning of a text: at most n bytes, no half rune at its end.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// lastLine is the last line of a text that isn't empty, without the spaces around it. A carriage return, with which
// programs draw over a line of progress, begins a line too.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexAny(text, "\r\n")+1:])
}
