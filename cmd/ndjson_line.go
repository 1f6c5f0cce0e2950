package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
)

// jobLine is a line of NDJSON.
type jobLine struct {
	Queue            string
	Type             string
	Data             json.RawMessage
	Key              *string
	ScheduledRunTime string
	Priority         *int
	Timeout          json.RawMessage
	ThrottleFactor   *int
	Windows          *[]string
	ShardKey         string
}

// jobFields are the names of the fields.
var jobFields = []string{
	"queue", "job_type", "job_data", "job_key", "scheduled_run_time", "priority", "timeout", "throttle_factor", "time_windows", "shard_key",
}

// otherFields are what others call them.
var otherFields = map[string]string{
	"task": "job_type", "topic": "job_type", "kind": "job_type", "name": "job_type", "handler": "job_type",
	"payload": "job_data", "body": "job_data", "args": "job_data", "message": "job_data",
	"id": "job_key", "discriminant": "job_key", "unique_key": "job_key",
	"at": "scheduled_run_time", "when": "scheduled_run_time", "run_at": "scheduled_run_time", "in": "scheduled_run_time",
	"delay": "scheduled_run_time", "scheduled_at": "scheduled_run_time", "weight": "throttle_factor",
}

// nearestField is the field that may be meant by a name.
func nearestField(name string) string {
	name = strings.ToLower(name)
	if other := otherFields[name]; other != "" {
		return other
	}
	for _, f := range jobFields {
		if slices.Contains(strings.Split(f, "_"), name) || len(name) > 3 && strings.ReplaceAll(f, "_", "") == name {
			return f
		}
	}
	return config.Nearest(name, jobFields)
}

// field is where the value of a field goes; nil if there is none of this name.
func (l *jobLine) field(name string) any {
	switch name {
	case "queue":
		return &l.Queue
	case "job_type":
		return &l.Type
	case "job_data":
		return &l.Data
	case "job_key":
		return &l.Key
	case "scheduled_run_time":
		return &l.ScheduledRunTime
	case "priority":
		return &l.Priority
	case "timeout":
		return &l.Timeout
	case "throttle_factor":
		return &l.ThrottleFactor
	case "time_windows":
		return &l.Windows
	case "shard_key":
		return &l.ShardKey
	}
	return nil
}

// readJobLine reads a line field by field, for to the json package a name in other letters is the same, and the last of two
// counts: whoever has looked at the line before, and let it pass, may have seen another job in it. An unknown field is refused,
// for it may be a misspelt one.
func readJobLine(text []byte) (l jobLine, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	begin, err := d.Token()
	if err != nil {
		return l, err
	}
	if begin != json.Delim('{') {
		return l, fmt.Errorf("it is no JSON object, but a JSON %s", kindOf(begin))
	}
	seen := make([]string, 0, 10)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return l, cutShort(err)
		}
		name, _ := token.(string)
		into := l.field(name)
		switch {
		case into == nil && l.field(strings.ToLower(name)) != nil:
			return l, fmt.Errorf("unknown field %q; it is written %s", name, strings.ToLower(name))
		case into == nil:
			return l, meant(fmt.Errorf("unknown field %.80q", name), nearestField(name))
		case slices.Contains(seen, name):
			return l, fmt.Errorf("the field %s is given twice", name)
		}
		seen = append(seen, name)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return l, cutShort(err)
		}
		if half := texts.LoneSurrogate(value); half != "" && (name != "job_data" || value[0] == '"') { // data that stay JSON stay as they are
			return l, fmt.Errorf("%s has a lone surrogate, %s, which is half of a character", name, half)
		}
		if err := json.Unmarshal(value, into); err != nil {
			if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				err = fmt.Errorf("%s may not be a JSON %s", name, wrong.Value)
			}
			return l, err
		}
	}
	if _, err := d.Token(); err != nil {
		return l, cutShort(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return l, errors.New("more than one JSON object")
	}
	return l, nil
}

// cutShort is the error of a line that ends too soon, as what it is.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends in the middle of a JSON object")
	}
	return err
}

// kindOf says what begins with a token.
func kindOf(token json.Token) string {
	switch token.(type) {
	case json.Delim:
		return "array"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "bool"
	}
	return "null"
}
