package cmd

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// signals are SIGINT, SIGTERM, and SIGHUP, which a connection that breaks off sends: the first ends the context, the second the
// process. While a pager has the terminal, ^C is the pager's.
type signals struct {
	// cancel ends the context, as the first signal does, for another reason.
	cancel context.CancelCauseFunc
	caught chan os.Signal
	done   chan struct{}
	first  atomic.Int32
	paged  atomic.Bool
}

func watchSignals(parent context.Context) (context.Context, *signals) {
	ctx, cancel := context.WithCancelCause(parent)
	s := &signals{cancel: cancel, caught: make(chan os.Signal, 2), done: make(chan struct{})}
	signal.Notify(s.caught, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(s.caught, syscall.SIGHUP)
	}
	go func() {
		defer cancel(nil)
		if sig := s.next(); sig != 0 {
			s.first.Store(int32(sig))
			cancel(nil)
			if sig := s.next(); sig != 0 {
				os.Exit(exitOf(sig))
			}
		}
	}()
	return ctx, s
}

// next waits for a signal; 0 is that all is done.
func (s *signals) next() syscall.Signal {
	for {
		select {
		case sig := <-s.caught:
			if sig != syscall.SIGINT || !s.paged.Load() {
				return sig.(syscall.Signal)
			}
		case <-s.done:
			return 0
		}
	}
}

// stop is for when all is done. The signals stay caught: one that comes while the process ends must not turn its success
// into a death.
func (s *signals) stop() { close(s.done) }

// ended is the signal that ended the context; 0 is none.
func (s *signals) ended() syscall.Signal { return syscall.Signal(s.first.Load()) }

// exitOf is how a shell sees a process that a signal has ended: 129 for SIGHUP, 130 for SIGINT, 143 for SIGTERM.
func exitOf(sig syscall.Signal) int { return 128 + int(sig) }
