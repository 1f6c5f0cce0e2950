package job

import (
	"fmt"

	"github.com/hipq/hipq/internal/texts"
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
