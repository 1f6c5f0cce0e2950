// Package lastlook lets whoever begins the work of a job look, as late as can be, whether the worker still has its lock: a
// process that was stopped and goes on may come to begin a program before its timers have fired.
package lastlook

import "context"

type key struct{}

// looking is a context whose end is looked for when it is asked.
type looking struct {
	context.Context
	look func()
}

// With makes a context for a handler. look ends ctx if its time is up by the clock; it is called by Err, and each time that the
// context itself is asked for its error.
func With(ctx context.Context, look func()) context.Context {
	return looking{context.WithValue(ctx, key{}, look), look}
}

// Err implements context.Context.
func (c looking) Err() error {
	c.look()
	return c.Context.Err()
}

// Err is why the work must not begin; nil if it may. What comes between this look and the work is what may still go wrong: there
// should be nothing.
func Err(ctx context.Context) error {
	if look, ok := ctx.Value(key{}).(func()); ok { // the context may have been wrapped
		look()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
