package handler

// PID is the guard process; 0 while none runs.
func (g *Guard) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return 0
	}
	return g.process.Process.Pid
}

// Count counts the foundlings, and reaps those that have ended.
func (g *Guard) Count() { g.children.count() }

// HeadcountEvery is how often a worker that adopts does so.
const HeadcountEvery = headcountEvery

// Born is when a process was born.
func Born(pid int) int {
	o, _ := otherOf(pid)
	return o.born
}

// ParseDecision reads the last line of a retry handler's output.
var ParseDecision = parseDecision

// LastLine is the last line of a text that isn't empty.
var LastLine = lastLine

// Printed is what an output makes of a text that comes in pieces of these sizes.
func Printed(text string, size func() int) (kept, last string, long bool) {
	var out output
	for len(text) > 0 {
		room := out.room()
		n := copy(room[:min(len(room), size())], text)
		out.took(n)
		text = text[n:]
	}
	p := out.end()
	return p.text, p.last, p.long
}
