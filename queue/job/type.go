package job

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/texts"
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

// Kind is the name of a job type whose data are a T, so that producers and handlers agree on the type. Declare it as a
// constant:
//
//	const SendReceipt job.Kind[Receipt] = "send_receipt"
//
// The data are T as JSON, readable in any language; if T is a string, they are the text itself. A null value, such as a nil
// pointer, means no data.
type Kind[T any] string

// New returns a job with this payload; set its Key and other fields, then enqueue it. It returns ErrInvalid if the payload
// can't be JSON, exceeds MaxDataBytes, or is the text NONE.
func (o Kind[T]) New(payloadOf T) (Params, error) {
	data, err := encode(payloadOf)
	if err != nil {
		return Params{}, fmt.Errorf("%w: job_data of a %s: %w", ErrInvalid, string(o), err)
	}
	j := Params{Type: string(o), Data: data}
	return j, j.Check()
}

// encode returns a payload as text. It turns a panic in the payload's MarshalJSON into an error.
func encode[T any](payloadOf T) (data string, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	data, err = texts.EncodeJSON(payloadOf)
	if _, isText := any(&payloadOf).(*string); data == None && !isText { // Check refuses the text None
		data = ""
	}
	return data, err
}

var errNoJob = fmt.Errorf("%w: the job is nil", ErrInvalid)

// Read returns a job's payload, or ErrInvalid if the job has another type or its data aren't a T. It ignores unknown fields,
// so newer producers work with older workers; missing fields are zero. Without data, or with null, T must be nilable or a
// string.
func (o Kind[T]) Read(j *Job) (T, error) {
	if j == nil {
		return *new(T), errNoJob
	}
	if j.Type != string(o) {
		return *new(T), fmt.Errorf("%w: its type is %q, but the handler is for %q", ErrInvalid, j.Type, string(o))
	}
	v, err := texts.DecodeJSON[T](j.Data)
	if err != nil {
		return v, fmt.Errorf("%w: job_data: %w", ErrInvalid, err)
	}
	return v, nil
}

// ResultOf returns the result of a finished job, for example from Queue.Wait, as set by handler.ForResult. It reads the
// result as Kind.Read reads data, and returns ErrInvalid if it isn't a T.
func ResultOf[T any](j *Job) (T, error) {
	if j == nil {
		return *new(T), errNoJob
	}
	v, err := texts.DecodeJSON[T](j.Result)
	if err != nil {
		return v, fmt.Errorf("%w: result: %w", ErrInvalid, err)
	}
	return v, nil
}
