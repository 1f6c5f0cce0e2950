package guard

// PID is the guard process; 0 while none runs.
func (g *Guard) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return 0
	}
	return g.process.Process.Pid
}

// Count counts the adopted processes, and reaps those that have ended.
func (g *Guard) Count() { g.children.count() }

// HasTold says whether the guard process has been told of an adopted process.
func (g *Guard) HasTold() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, adopted := g.hunt.known()
	return len(adopted) > 0
}
