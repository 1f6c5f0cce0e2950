package cmd

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// signals are SIGINT and SIGTERM: the first ends the context, the second the process.
type signals struct {
	caught chan os.Signal
	done   chan struct{}
	int    atomic.Bool
}

func watchSignals(parent context.Context) (context.Context, *signals) {
	ctx, cancel := context.WithCancel(parent)
	s := &signals{caught: make(chan os.Signal, 2), done: make(chan struct{})}
	signal.Notify(s.caught, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer cancel()
		select {
		case sig := <-s.caught:
			s.int.Store(sig == os.Interrupt)
			cancel()
		case <-s.done:
			return
		}
		select {
		case <-s.caught:
			os.Exit(exitInterrupted)
		case <-s.done:
		}
	}()
	return ctx, s
}

// stop is for when all is done. The signals stay caught: one that comes while the process ends must not turn its success
// into a death.
func (s *signals) stop() { close(s.done) }

// interrupted says whether it was SIGINT that ended the context. SIGTERM is an orderly end.
func (s *signals) interrupted() bool { return s.int.Load() }
