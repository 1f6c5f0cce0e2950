package cmd

import (
	"sync"
	"testing"
	"time"
)

// TestRunnersCloseTogether: all handlers are closed at once, because each may take the grace.
func TestRunnersCloseTogether(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	end := func() {
		both.Done()
		both.Wait()
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		new(app).closeRunners(&runners{close: []func(){end, end}})
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("one waits for the other")
	}
}
