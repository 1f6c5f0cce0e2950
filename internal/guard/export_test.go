package guard

// PID is the guard process's id; 0 while none runs.
func (g *Guard) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return 0
	}
	return g.process.Process.Pid
}

// Count reaps ended adopted processes.
func (g *Guard) Count() { _, _ = g.children.count() }

// HasTold reports whether the guard process knows of an adopted process.
func (g *Guard) HasTold() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, adopted := g.hunt.known()
	return len(adopted) > 0
}
