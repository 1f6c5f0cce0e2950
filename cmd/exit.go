package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/files"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// Exit codes. Those above 63 are from sysexits.h, which cron jobs and monitoring know.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 64
	exitTryLater = 75
	exitConfig   = 78
)

var errInterrupted = errors.New("interrupted")

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exit reports an error and maps it to an exit code. No other function does so.
func (a *app) exit(err error, signals *signals) int {
	if a.checking && err != nil {
		_, hint := a.diagnose(err)
		return a.endCheck(err, hint)
	}
	sig := signals.ended()
	if sig != 0 && errors.Is(err, context.Canceled) {
		err = errInterrupted // "context canceled" tells a user nothing
	}
	switch {
	case sig == syscall.SIGINT:
		if err != nil && err != errInterrupted { //nolint:errorlint // the user knows about ^C, but not what a joined or wrapped error adds
			a.report(exitOf(sig), err, "")
		}
		return exitOf(sig)
	case err == nil: // SIGTERM asks for an orderly end
		return exitOK
	case sig != 0 && (errors.Is(err, errInterrupted) || errors.Is(err, worker.ErrInterrupted)):
		a.report(exitOf(sig), err, "")
		return exitOf(sig)
	}
	code, hint := a.diagnose(err)
	if !errors.As(err, new(unsaid)) {
		a.report(code, err, hint)
	}
	return code
}

// advised is an error with advice, which is printed on its own line.
type advised struct {
	error
	advice string
}

func (e advised) Unwrap() error { return e.error }

// located is an error of an unreachable or full database, with the place of that database.
type located struct{ advised }

// locate adds the place to a database error: the server and its setting, the file and its disk, or the key in the
// config.
func locate(c *config.Config, err error) error {
	switch address := c.Database.Address(); {
	case err == nil, errors.Is(err, files.ErrUntrusted): // that names the file
		return err
	case errors.Is(err, schema.ErrConfig):
		m := c.Mistake("database", err)
		if !strings.HasPrefix(c.DSNFrom, "database.") {
			m.From = c.DSNFrom
		}
		return m
	case address == "" && schema.IsFull(err):
		where := "the database is " + c.Database.Path
		if d, unknown := monitor.DiskOf(filepath.Dir(c.Database.Path)); unknown == nil {
			where += "; " + d.String()
		}
		return located{advised{err, where}}
	case address != "":
		from := c.DSNFrom
		if strings.HasPrefix(from, "database.") {
			from += " in " + c.File
		}
		return located{advised{err, fmt.Sprintf("the database is %s, set by %s", address, from)}}
	}
	return err
}

const maxReported = 50

type failure struct {
	// Code is the exit code.
	Code int `json:"code"`
	// Message has a line for each error.
	Message string `json:"message"`
	// Hint is what to do.
	Hint *string `json:"hint"`
}

// report prints an error with its hints as JSON, or as lines: one for each of several joined errors. code is the
// command's exit code.
func (a *app) report(code int, err error, hint string) {
	said := joined(err)
	if more := len(said) - maxReported; more > 0 {
		said = append(said[:maxReported], fmt.Sprintf("… and %d more", more))
	}
	hints := hintsOf(err, hint)
	for n := range hints {
		if code != exitUsage { // the usage has no config
			hints[n] = a.printed(hints[n])
		}
	}
	said, hints = oneLines(said), oneLines(hints)
	if !a.json {
		a.err.text("hipq: %s\n", strings.Join(append(said, hints...), "\n  "))
		return
	}
	all := strings.Join(hints, "\n")
	_ = a.err.json(map[string]failure{"error": {code, strings.Join(said, "\n"), texts.Nullable(all == "", all)}}) // the exit code tells it too
}

// hintsOf lists the advice of an error, this hint, and the place of its database.
func hintsOf(err error, hint string) []string {
	e, _ := errors.AsType[advised](err)
	l, _ := errors.AsType[located](err)
	return slices.DeleteFunc([]string{e.advice, hint, l.advice}, func(text string) bool { return text == "" })
}

func joined(err error) (said []string) {
	if mistakes := config.Mistakes(err); len(mistakes) > 1 {
		for n, m := range mistakes {
			if m.Key == "" {
				said = append(said, joined(m.Err)...)
				continue
			}
			text := m.Error()
			if n > 0 { // the first mistake has the prefix and the file
				text = strings.TrimPrefix(text, config.ErrInvalid.Error()+": ")
			}
			if n > 0 && m.File == mistakes[n-1].File {
				text = strings.TrimPrefix(text, m.File+": ")
			}
			said = append(said, text)
		}
		return said
	}
	if within := errors.Unwrap(err); within != nil && within.Error() == err.Error() {
		return joined(within)
	}
	all, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // an error that wraps joined errors has its own text
	if !ok {
		return []string{err.Error()}
	}
	for _, e := range all.Unwrap() {
		said = append(said, joined(e)...)
	}
	if strings.Join(said, "\n") != err.Error() {
		return []string{err.Error()}
	}
	return said
}

func (a *app) diagnose(err error) (code int, hint string) {
	var unread misread
	var away gone
	switch {
	case errors.As(err, &away):
		return exitConfig, away.hint()
	case errors.As(err, &unread):
		return exitUsage, unread.hint()
	case errors.As(err, new(usageError)), errors.Is(err, config.ErrFlag):
		return exitUsage, ""
	case errors.Is(err, config.ErrNotFound) && a.configFile != "":
		return exitConfig, "run hipq init to create one there"
	case errors.Is(err, config.ErrNotFound):
		return exitConfig, "run hipq init to create one, or name one with --config or HIPQ_CONFIG"
	case errors.Is(err, config.ErrInvalid) && slices.Contains([]string{"work", "monitor", "doctor"}, a.command):
		return exitConfig, "no job runs until this is fixed: run hipq config check"
	case errors.Is(err, config.ErrInvalid):
		return exitConfig, ""
	case errors.Is(err, job.ErrInvalid), errors.Is(err, job.ErrWindow):
		return exitUsage, ""
	}
	trouble, hint := schema.Diagnose(err)
	if errors.Is(err, worker.ErrLockLost) {
		if trouble != schema.TryLater {
			hint = "the database or this host was stalled for too long"
		}
		return exitTryLater, hint + "; the next tick takes the jobs back"
	}
	switch trouble {
	case schema.TryLater:
		return exitTryLater, hint
	case schema.Misconfigured:
		return exitConfig, hint
	default:
		return exitFailed, ""
	}
}

// signals handles SIGINT, SIGTERM, and SIGHUP, which a broken connection sends. The first signal cancels the context,
// the second ends the process.
type signals struct {
	done  chan struct{}
	first atomic.Int32
}

func watchSignals(parent context.Context) (context.Context, *signals) {
	ctx, cancel := context.WithCancel(parent)
	s, caught := &signals{done: make(chan struct{})}, make(chan os.Signal, 2)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(caught, syscall.SIGHUP)
	}
	go func() {
		defer cancel()
		for {
			select {
			case sig := <-caught:
				if !s.first.CompareAndSwap(0, int32(sig.(syscall.Signal))) {
					os.Exit(exitOf(sig.(syscall.Signal)))
				}
				cancel()
			case <-s.done:
				return
			}
		}
	}()
	return ctx, s
}

// stop ends the handling when all is done. The signals stay caught, because one during the exit must not turn success
// into death by signal.
func (s *signals) stop() { close(s.done) }

func (s *signals) ended() syscall.Signal { return syscall.Signal(s.first.Load()) }

// exitOf is a shell's exit code for a death by signal: 129 for SIGHUP, 130 for SIGINT, 143 for SIGTERM.
func exitOf(sig syscall.Signal) int { return 128 + int(sig) }
