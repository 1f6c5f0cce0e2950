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

// ParseDecision reads the last line of a retry handler's output.
var ParseDecision = parseDecision
