package job

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Type holds the defaults of one job type. Start from DefaultType.
type Type struct {
	// Name is compared byte by byte; at most MaxTypeBytes. AllTypes is for the jobs of each type that isn't configured.
	Name string
	// Timeout is how long an attempt may last, in whole seconds.
	Timeout time.Duration
	// StartTimeout is how long the type's program may start before an attempt's timeout begins; 0 if that begins at once. It only tells
	// operators when an attempt ends at the latest.
	StartTimeout time.Duration
	// Priority orders due jobs; by default the lowest number starts first.
	Priority int
	// ThrottleFactor is the weight counted against the queue's throttle limit.
	ThrottleFactor int
	// Windows are the times of day in which a job may start; none means always.
	Windows Windows
	// Retry decides after an error, unless a retry handler does.
	Retry RetryPolicy
	// RetryHandler says that hipq work has a retry handler for this type, so that SQL workers leave the decision to it.
	RetryHandler bool
	// Async: the handler's success only starts the work; an outside answer or the timeout ends the job.
	Async bool
	// Concurrency is how many of the type's jobs may run at once on one host; 0 means the queue's limit.
	Concurrency int
}

// AllTypes is the name of the type that stands for each type of the queue without a handler of its own. No job has it.
const AllTypes = "*"

// DefaultType returns the defaults of an unconfigured type.
func DefaultType(name string) Type {
	return Type{Name: name, Timeout: 24 * time.Hour, Priority: 100, ThrottleFactor: 1, Retry: DefaultRetry}
}

// Check returns ErrInvalid for an invalid type. The zero Type is invalid; start from DefaultType.
func (t Type) Check() error {
	if t.Timeout == 0 {
		return fmt.Errorf("%w: its timeout is 0 (DefaultType has the defaults)", ErrInvalid)
	}
	if t.Concurrency < 0 || t.Concurrency > maxInt {
		return fmt.Errorf("%w: its concurrency %d is not from 0 to %d", ErrInvalid, t.Concurrency, maxInt)
	}
	name := t.Name
	if name == AllTypes {
		name = "any"
	}
	err := Params{Type: name, Timeout: t.Timeout, Priority: &t.Priority, ThrottleFactor: &t.ThrottleFactor}.Check()
	if err != nil {
		return err
	}
	return t.Retry.Check()
}

// CheckType returns ErrInvalid for an invalid job type name.
func CheckType(name string) error {
	switch {
	case name == "" || name == None:
		return fmt.Errorf("%w: job_type is missing", ErrInvalid)
	case len(name) > MaxTypeBytes:
		return fmt.Errorf("%w: job_type has %d bytes; the maximum is %d", ErrInvalid, len(name), MaxTypeBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: job_type %q is not valid UTF-8", ErrInvalid, name)
	case strings.IndexFunc(name, unicode.IsControl) >= 0:
		return fmt.Errorf("%w: job_type %q has a control character", ErrInvalid, name)
	}
	return nil
}

// Order decides which of two due jobs starts first.
type Order string

// The empty Order is ByPriority.
const (
	// ByPriority orders by priority, then scheduled run time, then ID.
	ByPriority Order = "priority"
	// BySchedule orders by scheduled run time, then ID, and ignores priorities.
	BySchedule Order = "schedule"
)

// PriorityOrder says which of two priorities comes first under ByPriority.
type PriorityOrder string

// The empty PriorityOrder is LowestFirst.
const (
	LowestFirst  PriorityOrder = "lowest"
	HighestFirst PriorityOrder = "highest"
)
