package job

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Type holds the defaults of the jobs of one type. DefaultType is where to begin.
type Type struct {
	// Name is compared byte for byte, at most MaxTypeBytes long.
	Name string
	// Timeout is how long an attempt may last, in whole seconds.
	Timeout time.Duration
	// Priority: the lower number first.
	Priority int
	// ThrottleFactor is the weight counted against the queue's throttle limit.
	ThrottleFactor int
	// Windows are the times of day within which a job must start; none means always.
	Windows Windows
	// Retry decides after an error, unless a retry handler does.
	Retry RetryPolicy
	// RetryHandler says that a retry handler decides after an error, where the type's jobs are handled by hipq work: so a worker
	// that settles them by SQL leaves the decision to it.
	RetryHandler bool
	// Async: a handler's success only means that the work is under way; an answer from outside ends the job, or its timeout.
	Async bool
	// Concurrency is how many jobs of the type run at once on one host; 0 is as many as the queue's.
	Concurrency int
}

// DefaultType has what holds for a type where the config says nothing.
func DefaultType(name string) Type {
	return Type{Name: name, Timeout: 24 * time.Hour, Priority: 100, ThrottleFactor: 1, Retry: DefaultRetry}
}

// Check refuses a type that can't be: ErrInvalid. A Type of zeros is none: DefaultType has the defaults.
func (t Type) Check() error {
	if t.Timeout == 0 {
		return fmt.Errorf("%w: its timeout is 0 (DefaultType has the defaults)", ErrInvalid)
	}
	if t.Concurrency < 0 || t.Concurrency > maxInt {
		return fmt.Errorf("%w: its concurrency %d is not from 0 to %d", ErrInvalid, t.Concurrency, maxInt)
	}
	err := Params{Type: t.Name, Timeout: t.Timeout, Priority: &t.Priority, ThrottleFactor: &t.ThrottleFactor}.Check()
	if err != nil {
		return err
	}
	return t.Retry.Check()
}

// CheckType says whether a job type may have this name.
func CheckType(name string) error {
	switch {
	case name == "" || name == None:
		return fmt.Errorf("%w: job_type is missing", ErrInvalid)
	case len(name) > MaxTypeBytes:
		return fmt.Errorf("%w: job_type has %d bytes, allowed are %d", ErrInvalid, len(name), MaxTypeBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: job_type %q is not valid UTF-8", ErrInvalid, name)
	case strings.IndexFunc(name, unicode.IsControl) >= 0:
		return fmt.Errorf("%w: job_type %q has a control character", ErrInvalid, name)
	}
	return nil
}

// Order is what decides which of two due jobs is started first.
type Order string

// The orders. The empty one is ByPriority.
const (
	// ByPriority is by priority, then scheduled run time, then id.
	ByPriority Order = "priority"
	// BySchedule is by scheduled run time, then id, whatever the priorities.
	BySchedule Order = "schedule"
)

// PriorityOrder says which of two priorities comes first, where the order is ByPriority.
type PriorityOrder string

// The orders of priorities. The empty one is LowestFirst.
const (
	LowestFirst  PriorityOrder = "lowest"
	HighestFirst PriorityOrder = "highest"
)
