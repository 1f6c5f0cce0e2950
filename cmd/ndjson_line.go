package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/texts"
)

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

// fields maps the name of each field to its destination.
func (l *jobLine) fields() map[string]any {
	return map[string]any{
		"queue": &l.Queue, "job_type": &l.Type, "job_data": &l.Data, "job_key": &l.Key, "scheduled_run_time": &l.ScheduledRunTime,
		"priority": &l.Priority, "timeout": &l.Timeout, "throttle_factor": &l.ThrottleFactor, "time_windows": &l.Windows, "shard_key": &l.ShardKey,
	}
}

// readJobLine reads a line field by field. The json package ignores the case of names and takes the last of duplicates.
// So an earlier check may have seen another job. Unknown fields are refused because they may be misspelt.
func readJobLine(text []byte) (l jobLine, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	begin, err := d.Token()
	if err != nil {
		return l, err
	}
	if begin != json.Delim('{') {
		return l, errors.New("it is not a JSON object")
	}
	fields, seen := l.fields(), make([]string, 0, 10)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return l, cutShort(err)
		}
		name, _ := token.(string)
		into, known := fields[name]
		if !known {
			all := slices.Sorted(maps.Keys(fields))
			return l, unknown(fmt.Errorf("unknown field %.80q; known: %s", name, strings.Join(all, ", ")), name, all)
		}
		if slices.Contains(seen, name) {
			return l, fmt.Errorf("the field %s is given twice", name)
		}
		seen = append(seen, name)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return l, cutShort(err)
		}
		if half := texts.LoneSurrogate(value); half != "" && (name != "job_data" || value[0] == '"') { // data that stays JSON is unchanged
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

// cutShort replaces the error of a line that ends too soon.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends in the middle of a JSON object")
	}
	return err
}
