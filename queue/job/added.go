package job

import (
	"errors"
	"fmt"
)

// ErrDuplicateKey is what a *DuplicateError is, for jobs with job.RefuseDuplicate.
var ErrDuplicateKey = errors.New("a job with this key is not final yet")

// DuplicateError says which of the jobs to enqueue has the type and key of one that is not final.
type DuplicateError struct {
	// Index is which of the jobs has the key.
	Index int
	// ID is the job that is there; 0 if that is an earlier one of the jobs.
	ID  int64
	Key string
}

func (e *DuplicateError) Error() string {
	if e.ID == 0 {
		return fmt.Sprintf("%v: %q, twice in one call", ErrDuplicateKey, e.Key)
	}
	return fmt.Sprintf("%v: %q is job %d's", ErrDuplicateKey, e.Key, e.ID)
}

// Is makes it ErrDuplicateKey.
func (e *DuplicateError) Is(target error) bool { return target == ErrDuplicateKey }

// Added says whether a new job was added, and its id.
type Added struct {
	ID  int64
	Key string
	// Duplicate says that a job with this type and key was there and not final: ID is that job's, and nothing was added.
	Duplicate bool
	// Replaced says that the job that was there has become what the new one was to be.
	Replaced bool
}
