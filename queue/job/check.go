package job

import (
	"fmt"
	"slices"
)

// placed says in which states the jobs of a line are.
var placed = map[Line][]State{
	LineNew: {Initial}, LineDue: {Initial, Retry}, LineLater: {Initial, Retry}, LineHeld: {Initial, Retry},
	LineLocked: {Initial, Retry, Running, Error}, LineWaiting: {Running}, LineError: {Error},
	LineFinished: {Final}, LineFailed: {Final}, LineClosed: {Final},
}

// Check refuses a job that can't be, as somebody may have written it into the table: ErrInvalid. Its constraints refuse the
// same, but for what only a program can read. One that is final may be of any kind, and one that is new may leave out what
// its type has.
func (j *Job) Check() error {
	wakes := j.Line == LineLater || j.Line == LineWaiting
	switch {
	case !slices.Contains(placed[j.Line], j.State):
		return fmt.Errorf("%w: line %s does not go with state %s", ErrInvalid, j.Line, j.State)
	case j.State == Final:
		return nil
	case wakes == j.WakeTime.IsZero():
		return fmt.Errorf("%w: wake_time does not go with line %s", ErrInvalid, j.Line)
	case j.Line == LineHeld && j.Group == "":
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
	return New{
		Type: j.Type, Data: j.Data, Key: j.Key, ShardKey: j.ShardKey, At: j.ScheduledRunTime, Timeout: j.Timeout,
		Priority: &j.Priority, ThrottleFactor: &j.ThrottleFactor,
	}.Check()
}
