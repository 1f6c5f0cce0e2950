package handler

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/job"
)

// Output is where a handler in Go, or a middleware, writes log lines that are kept with the attempt, as the output of a program
// is: the last 16 KiB of them. A logger is slog.New(slog.NewTextHandler(handler.Output(ctx), nil)). It is safe for concurrent use.
// What comes after the end of the attempt is lost, and so is what is written with a context that is not a handler's.
func Output(ctx context.Context) io.Writer {
	if l, ok := ctx.Value(outputKey{}).(*funcLog); ok {
		return l
	}
	return io.Discard
}

type outputKey struct{}

// funcLog is what an attempt in Go has written to its Output.
type funcLog struct {
	mu   sync.Mutex
	text *output // nil is nothing
	over bool
	kept string // when it is over
}

// Write implements io.Writer. It never fails.
func (l *funcLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.text = logged(l.text, text)
	}
	return len(text), nil
}

// end is what is kept; nothing more is, from now on. It may be repeated.
func (l *funcLog) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text != nil {
		l.kept, l.text = l.text.end().text, nil
	}
	l.over = true
	return l.kept
}

// keeping keeps what is written to the Output of an attempt, before what its outcome has kept itself; where the context has an
// Output already, whoever made that does.
func keeping(ctx context.Context, handle func(context.Context) job.Outcome) job.Outcome {
	if _, has := ctx.Value(outputKey{}).(*funcLog); has {
		return handle(ctx)
	}
	l := new(funcLog)
	ctx = context.WithValue(ctx, outputKey{}, l)
	defer handling.Instead(ctx, func() {
		outcome := handling.GoesOn(ctx)
		outcome.Output = l.end()
		handling.End(ctx, outcome)
	})()
	outcome := handle(ctx)
	text := l.end()
	if text != "" && outcome.Output != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	outcome.Output = text + outcome.Output
	return outcome
}
