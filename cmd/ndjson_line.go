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
	"time"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
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

func (l jobLine) job(parseTime func(string) (time.Time, error)) (j job.Params, err error) {
	j = job.Params{Type: l.Type, Data: string(l.Data), Priority: l.Priority, ThrottleFactor: l.ThrottleFactor, ShardKey: l.ShardKey}
	if l.Key != nil {
		if *l.Key == "" {
			return j, errors.New("job_key is empty; leave it out to get a generated key")
		}
		j.Key = *l.Key
	}
	switch {
	case j.Data == "null":
		j.Data = ""
	case len(l.Data) > 0 && l.Data[0] == '"':
		if err := json.Unmarshal(l.Data, &j.Data); err != nil {
			return j, fmt.Errorf("job_data: %w", err)
		}
	}
	if l.ScheduledRunTime != "" {
		if j.At, err = parseTime(l.ScheduledRunTime); err != nil {
			return j, fmt.Errorf("scheduled_run_time: %w", err)
		}
	}
	if len(l.Timeout) > 0 && string(l.Timeout) != "null" {
		if j.Timeout, err = l.timeout(); err != nil {
			return j, fmt.Errorf("timeout: %w", err)
		}
	}
	if l.Windows != nil {
		windows, err := job.ParseWindows(*l.Windows)
		if err != nil {
			return j, fmt.Errorf("time_windows: %w", err)
		}
		j.Windows = &windows
	}
	return j, nil
}

// timeout is a number of seconds, or a string with a unit.
func (l jobLine) timeout() (time.Duration, error) {
	var text string
	if json.Unmarshal(l.Timeout, &text) == nil {
		d, err := config.ParseDuration(text)
		if err == nil && d < time.Second {
			err = fmt.Errorf("%q is shorter than a second", text)
		}
		return d, err
	}
	var seconds int64
	if err := json.Unmarshal(l.Timeout, &seconds); err != nil || seconds < 1 || seconds > 1<<32 {
		return 0, fmt.Errorf("%.80s is neither a whole number of seconds (1 or more) nor a string with a unit", strings.TrimSpace(string(l.Timeout)))
	}
	return time.Duration(seconds) * time.Second, nil
}
