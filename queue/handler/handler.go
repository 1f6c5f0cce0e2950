// Package handler is what runs for a job. Each kind of handler turns the ways in which its work can end into one
// job.Outcome.
package handler

import (
	"context"

	"github.com/hipq/hipq/queue/job"
)

// Handler runs one attempt of a job. It must return soon after ctx ends; context.Cause(ctx) is then the error to report
// (a timeout, a lost lock, an interruption). A worker waits for that until its grace, and a second, are over: then the attempt has
// ended with an error, and what the handler says later is nothing. It may be called for many jobs at once.
type Handler interface {
	Handle(ctx context.Context, j *job.Job) job.Outcome
}

// RetryHandler decides after an error whether and when a job runs again. It is asked on every error of the job types that
// have one, and asked again if its worker ended before the decision was written down. With an error it decides nothing,
// and the retry policy does. It must return soon after ctx ends,
// as a Handler must, and may be asked about many jobs at once.
type RetryHandler interface {
	Decide(ctx context.Context, j *job.Job, o job.Outcome) (job.Decision, error)
}
