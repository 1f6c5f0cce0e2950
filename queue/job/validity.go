package job

import (
	"fmt"
	"slices"
)

// Check refuses a job that can't be, as somebody may have written it into the table: ErrInvalid. Its constraints refuse the
// same, but for what only a program can read. One that is final may be of any kind, and one that is new may leave out what
// its type has.
func (j *Job) Check() error {
	wakes := j.Status == StatusScheduled || j.Status == StatusAwaiting
	switch {
	case !slices.Contains(Statuses, j.Status):
		return fmt.Errorf("%w: there is no status %q", ErrInvalid, j.Status)
	case j.Status.IsFinal():
		return nil
	case !j.IsNew() && j.Left != (Left{}):
		return fmt.Errorf("%w: timeout, priority, throttle_factor or time_windows is missing", ErrInvalid)
	case j.Timeout == 0 && !j.Left.Timeout:
		return fmt.Errorf("%w: timeout is 0", ErrInvalid)
	case wakes == j.WakeTime.IsZero():
		return fmt.Errorf("%w: wake_time does not go with status %s", ErrInvalid, j.Status)
	case j.Status == StatusThrottled && j.Group == "":
		return fmt.Errorf("%w: throttle_group is empty", ErrInvalid)
	case j.Attempt < 0 || j.Attempt >= MaxAttempt:
		return fmt.Errorf("%w: attempt %d is not from 0 to %d", ErrInvalid, j.Attempt, MaxAttempt-1)
	case !j.IsNew() && (j.Interrupts < 0 || j.Interrupts > j.Attempt):
		return fmt.Errorf("%w: interrupts %d is not from 0 to attempt %d", ErrInvalid, j.Interrupts, j.Attempt)
	case !j.IsNew() && (j.Losses < 0 || j.Losses > MaxAttempt):
		return fmt.Errorf("%w: losses %d is not from 0 to %d", ErrInvalid, j.Losses, MaxAttempt)
	case j.Key == "":
		return fmt.Errorf("%w: job_key is empty", ErrInvalid)
	}
	n := Params{
		Type: j.Type, Data: j.Data, Key: j.Key, ShardKey: j.ShardKey, At: j.ScheduledRunTime, Timeout: j.Timeout,
		Priority: &j.Priority, ThrottleFactor: &j.ThrottleFactor,
	}
	if n.Data == None { // which a row has, and New has not
		n.Data = ""
	}
	return n.Check()
}
