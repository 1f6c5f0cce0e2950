package handling

import "context"

// Heard is what hipq and a handler say to each other, for somebody who develops the handler.
type Heard struct {
	// Request is what was sent besides the job, and Answer what came back, as texts of lines.
	Request, Answer string
	// ReadFrom says where the outcome was found, in words.
	ReadFrom string
}

// Note is what the handler calls to add to what is heard, at any time while it runs; nil if nobody listens.
func Note(ctx context.Context) func(add func(*Heard)) {
	if a := of(ctx); a != nil {
		return a.Note
	}
	return nil
}
