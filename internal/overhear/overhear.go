// Package overhear lets somebody who develops a handler see what hipq and the handler say to each other.
package overhear

import "context"

// Heard is what was overheard.
type Heard struct {
	// Request is what was sent besides the job, and Answer what came back, as texts of lines.
	Request, Answer string
	// ReadFrom says where the outcome was found, in words.
	ReadFrom string
}

type key struct{}

// With makes a context for a handler. note is called with what is known more, which may be at any time while the handler runs.
func With(ctx context.Context, note func(add func(*Heard))) context.Context {
	return context.WithValue(ctx, key{}, note)
}

// Note is what the handler calls; nil if nobody listens.
func Note(ctx context.Context) func(add func(*Heard)) {
	note, _ := ctx.Value(key{}).(func(add func(*Heard)))
	return note
}
