package handler

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/texts"
)

const (
	// keepOutput is how many bytes of a handler's output are kept, from its end.
	keepOutput = 16 << 10
	// maxReply is the longest last line that is read as a reply, in bytes.
	maxReply = 1 << 20
)

// output keeps the end of a program's output in fixed memory. It also keeps the beginning of a longer line that may be a
// reply.
type output struct {
	buf [2 * keepOutput]byte
	n   int   // filled bytes of buf
	cut int64 // dropped bytes
	// within says that buf begins within a line. lost says that more of that line was dropped than begin holds.
	within, lost bool
	// begin is the dropped part of that line, up to maxReply, if it begins like a reply.
	begin []byte
	// take, if set, gets each line that isn't too long, and returns true if the log can omit it.
	take func(line []byte) bool
	// line is where the unfinished line begins; -1 means before buf.
	line int
}

// Room returns the space for the next bytes, never empty. Report them to Took.
func (o *output) Room() []byte {
	if o.n == len(o.buf) {
		o.keepBeginning()
		o.n = copy(o.buf[:], o.buf[keepOutput:])
		o.cut += keepOutput
		o.line = max(-1, o.line-keepOutput)
	}
	return o.buf[o.n:]
}

// Took records n new bytes. Lines are taken while the program runs.
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

// logged appends to a log; nil is an empty log.
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

// keepBeginning saves what Room is about to drop of the last line.
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

// lastLineStart returns the start of the last line that isn't empty, or 0.
func lastLineStart(text []byte) int {
	text = trimRight(text)
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return 0 // faster for much output without newlines
	}
	return bytes.LastIndexAny(text, "\r\n") + 1
}

// trimRight trims like TrimSpace, but is faster with many spaces.
func trimRight(text []byte) []byte {
	return bytes.TrimRightFunc(bytes.TrimRight(text, " \t\r\n"), unicode.IsSpace)
}

type printed struct {
	// text is the kept output, made clean.
	text string
	// cut says that text begins with a note, perhaps followed by part of a line.
	cut bool
	// last is the last line, whole up to maxReply if it begins with a brace. Otherwise it may be only the line's end.
	last string
	// long says that last exceeds maxReply.
	long bool
	// left notes the processes that the program left behind.
	left string
}

// whole returns the text from its first whole line on.
func (p printed) whole() string {
	text := p.text
	if p.cut {
		_, text, _ = strings.Cut(text, "\n")
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

func (o *output) end() printed {
	if o.take != nil && o.line >= 0 && o.line < o.n && o.take(o.buf[o.line:o.n]) { // the last line, which has no newline
		o.n = o.line
	}
	all := o.buf[:o.n]
	kept := all[max(0, len(all)-keepOutput):]
	cut := o.cut + int64(len(all)-len(kept))
	if cut == 0 {
		text := texts.Clean(string(kept))
		return printed{text: text, last: lastLine(text)}
	}
	// don't begin within a rune
	for range utf8.UTFMax - 1 {
		if len(kept) == 0 || utf8.RuneStart(kept[0]) {
			break
		}
		kept, cut = kept[1:], cut+1
	}
	p := printed{cut: true, text: fmt.Sprintf("[%d bytes cut]\n%s", cut, texts.Clean(string(kept)))}
	start := lastLineStart(all)
	switch {
	case start > 0 || !o.within:
		p.last = lastLine(texts.Clean(string(all[start:])))
	case len(o.begin) == 0:
		p.last = "…" + lastLine(texts.Clean(string(all)))
	default:
		line := strings.TrimSpace(string(o.begin) + string(all))
		p.last, p.long = lastLine(texts.Clean(line)), o.lost || len(line) > maxReply
	}
	return p
}

const replacement = string(utf8.RuneError)

func withoutNUL(text string) string {
	return strings.ReplaceAll(text, "\x00", replacement)
}

// quoted shortens a text for an error, and marks the cut.
func quoted(text string) string {
	if cut := head(text, maxReason); cut != text {
		return cut + "…"
	}
	return text
}

// head returns at most n bytes of a text, cut between runes.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// lastLine returns the last nonempty line, trimmed. A carriage return also begins a line, because programs use it to redraw
// progress.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexAny(text, "\r\n")+1:])
}
