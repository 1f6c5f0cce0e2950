package job

import (
	"fmt"

	"github.com/hipq/hipq/internal/texts"
)

// Kind is the name of a job type whose jobs have a T for their data: who enqueues and who handles them can't mean different
// things then. It is a constant:
//
//	const SendReceipt job.Kind[Receipt] = "send_receipt"
//
// The data are the T as JSON, which programs in any language can read and write; of a T that is a string they are the text
// itself. What is null, such as a nil pointer, is no data.
type Kind[T any] string

// New is a job with this payload, to enqueue; set its Key, its time and so on before that. ErrInvalid if the payload can't be
// JSON, has more than MaxDataBytes as such, or is the text NONE.
func (o Kind[T]) New(payloadOf T) (Params, error) {
	data, err := encode(payloadOf)
	if err != nil {
		return Params{}, fmt.Errorf("%w: job_data of a %s: %w", ErrInvalid, string(o), err)
	}
	j := Params{Type: string(o), Data: data}
	return j, j.Check()
}

// encode is the text of a payload, as New has it. A panic of the payload's own MarshalJSON is an error too.
func encode[T any](payloadOf T) (data string, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	data, err = texts.EncodeJSON(payloadOf)
	if _, isText := any(&payloadOf).(*string); data == None && !isText { // the text None is for New's Check to refuse
		data = ""
	}
	return data, err
}

var errNoJob = fmt.Errorf("%w: the job is nil", ErrInvalid)

// Read gives the payload of a job. ErrInvalid if the job has another type, or data that are no T. Fields that T doesn't know
// are passed over, so that a newer program may enqueue for an older worker; those that the data don't have are zero.
// A job without data, or with null, has a payload only where a T may be nil, or is a string.
func (o Kind[T]) Read(j *Job) (T, error) {
	if j == nil {
		return *new(T), errNoJob
	}
	if j.Type != string(o) {
		return *new(T), fmt.Errorf("%w: its type is %q, where %q is handled", ErrInvalid, j.Type, string(o))
	}
	v, err := texts.DecodeJSON[T](j.Data)
	if err != nil {
		return v, fmt.Errorf("%w: job_data: %w", ErrInvalid, err)
	}
	return v, nil
}

// ResultOf gives the result of a finished job, such as Queue.Wait gives, as the handler gave it back: handler.ForResult. It is
// read as Of.Read reads data. ErrInvalid if the result is no T.
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
