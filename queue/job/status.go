package job

// Status is the stored column that polls select by. The State follows from it.
type Status string

// The statuses.
const (
	// StatusSubmitted: inserted by plain SQL, to be ingested by a worker.
	StatusSubmitted Status = "submitted"
	// StatusScheduled: becomes available at its wake_time.
	StatusScheduled Status = "scheduled"
	// StatusAvailable: may start.
	StatusAvailable Status = "available"
	// StatusThrottled: due, but waits for room in a limit.
	StatusThrottled Status = "throttled"
	// StatusLocked: an SQL worker has locked the job and starts it later. hipq's workers start what they lock at once.
	StatusLocked Status = "locked"
	// StatusRunning: a worker has locked the job, and its handler runs.
	StatusRunning Status = "running"
	// StatusAnswered: an outside answer has settled the attempt, but its handler still runs.
	StatusAnswered Status = "answered"
	// StatusDeciding: a worker has locked the job and asks its retry handler.
	StatusDeciding Status = "deciding"
	// StatusAwaiting: runs elsewhere without a worker, and waits for an answer until its wake_time.
	StatusAwaiting Status = "awaiting"
	// StatusUndecided: failed, and waits for a worker to take the retry decision.
	StatusUndecided Status = "undecided"
	// StatusFinished: final and successful.
	StatusFinished Status = "finished"
	// StatusFailed: final with an error.
	StatusFailed Status = "failed"
	// StatusClosed: final with an error that needs no action: retried, dismissed or cancelled.
	StatusClosed Status = "closed"
)

// Statuses are all statuses, in the order of a job's life.
var Statuses = []Status{
	StatusSubmitted, StatusAvailable, StatusScheduled, StatusThrottled, StatusLocked, StatusRunning, StatusAnswered, StatusDeciding,
	StatusAwaiting, StatusUndecided, StatusFinished, StatusFailed, StatusClosed,
}

// states are the states of those statuses that determine it alone.
var states = map[Status]State{
	StatusRunning: Running, StatusAwaiting: Running, StatusAnswered: Running, StatusDeciding: Error, StatusUndecided: Error,
	StatusFinished: Final, StatusFailed: Final, StatusClosed: Final,
}

// State returns the state of a job with this status and number of starts.
func (s Status) State(attempt int) State {
	switch state, ok := states[s]; {
	case ok:
		return state
	case attempt > 0:
		return Retry
	}
	return Initial
}

// IsFinal says whether the job has ended.
func (s Status) IsFinal() bool { return states[s] == Final }

// Counts says whether a job counts against the limits.
func (s Status) Counts() bool {
	return s == StatusLocked || s == StatusRunning || s == StatusAnswered || s == StatusAwaiting
}

// HasWorker says whether a worker has locked the job.
func (s Status) HasWorker() bool {
	return s == StatusLocked || s == StatusRunning || s == StatusAnswered || s == StatusDeciding
}

// State is a job's state in its life.
//
//	            ┌───────────────────────────── retry ◄──┐
//	            ▼                                       │ the retry decision: again
//	initial ─► running ─► error ────────────────────────┤
//	            │                                       │ the retry decision: no
//	            └──────────────────────────► final ◄────┘
type State string

// The states. Nothing leaves Final.
const (
	// Initial: accepted, never started.
	Initial State = "initial"
	// Running: committed before the handler begins. After a crash, a row may stay running until its rescue.
	Running State = "running"
	// Error: the attempt failed and waits for the retry decision.
	Error State = "error"
	// Retry: waits for its next attempt, at the scheduled run time.
	Retry State = "retry"
	// Final: ended, successfully or with an error.
	Final State = "final"
)

// States are all states, in the order of a job's life.
var States = []State{Initial, Running, Error, Retry, Final}
