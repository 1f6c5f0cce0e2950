package handler

// ParseDecision reads the last line of a retry handler's output.
var ParseDecision = parseDecision

// LastLine is the last line of a text that isn't empty.
var LastLine = lastLine

// Printed is what an output makes of a text that comes in pieces of these sizes.
func Printed(text string, size func() int) (kept, last string, long bool) {
	var out output
	for len(text) > 0 {
		room := out.Room()
		n := copy(room[:min(len(room), size())], text)
		out.Took(n)
		text = text[n:]
	}
	p := out.end()
	return p.text, p.last, p.long
}

// Over says which limit a program was over.
var Over = Limits.over
