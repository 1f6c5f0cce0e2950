package rules

import (
	"errors"
	"fmt"

	"github.com/hipq/hipq/queue/job"
)

// ErrTransition is wrapped by the refusal of a transition.
var ErrTransition = errors.New("transition not allowed")

// transitions is the one table of what may follow what. Initial and Retry become Final when the job is cancelled, Retry
// also when an outside answer arrives.
var transitions = map[job.State][]job.State{
	job.Initial: {job.Running, job.Final},
	job.Running: {job.Error, job.Final},
	job.Error:   {job.Retry, job.Final},
	job.Retry:   {job.Running, job.Final},
	job.Final:   {},
}

// CheckTransition refuses a transition that the table doesn't have, with an error that names both states.
func CheckTransition(from, to job.State) error {
	for _, s := range transitions[from] {
		if s == to {
			return nil
		}
	}
	return fmt.Errorf("%w: %s to %s", ErrTransition, from, to)
}
