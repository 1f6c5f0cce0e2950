package job

// Status is where a job stands: the one stored column that says so, and what the queries that poll go by. The State follows from it.
type Status string

// The statuses.
const (
	// StatusSubmitted: inserted by plain SQL, to be accepted by a worker.
	StatusSubmitted Status = "submitted"
	// StatusScheduled: to be made available at its wake_time.
	StatusScheduled Status = "scheduled"
	// StatusAvailable: may be started.
	StatusAvailable Status = "available"
	// StatusThrottled: due, but its throttle group is full.
	StatusThrottled Status = "throttled"
	// StatusLocked: a program that works by SQL has it, and starts it later. A round starts what it locks.
	StatusLocked Status = "locked"
	// StatusRunning: a worker has it, and its handler runs.
	StatusRunning Status = "running"
	// StatusAnswered: an answer from outside says how the attempt ends, and its handler still runs.
	StatusAnswered Status = "answered"
	// StatusDeciding: a worker has it, and asks its retry handler.
	StatusDeciding Status = "deciding"
	// StatusAwaiting: running elsewhere, without a worker, for an answer from there until its wake_time.
	StatusAwaiting Status = "awaiting"
	// StatusUndecided: failed, and waits for a worker that takes the retry decision.
	StatusUndecided Status = "undecided"
	// StatusFinished: final, and well.
	StatusFinished Status = "finished"
	// StatusFailed: final with an error.
	StatusFailed Status = "failed"
	// StatusClosed: final with an error, and nothing is to be done about it any more: it was retried, dismissed, or
	// cancelled.
	StatusClosed Status = "closed"
)

// Statuses are all there are, in the order of a life.
var Statuses = []Status{
	StatusSubmitted, StatusAvailable, StatusScheduled, StatusThrottled, StatusLocked, StatusRunning, StatusAnswered, StatusDeciding,
	StatusAwaiting, StatusUndecided, StatusFinished, StatusFailed, StatusClosed,
}

// states are those of the statuses that have one whatever the attempt.
var states = map[Status]State{
	StatusRunning: Running, StatusAwaiting: Running, StatusAnswered: Running, StatusDeciding: Error, StatusUndecided: Error,
	StatusFinished: Final, StatusFailed: Final, StatusClosed: Final,
}

// State is that of a job of this status that has been started so often.
func (s Status) State(attempt int) State {
	switch state, ok := states[s]; {
	case ok:
		return state
	case attempt > 0:
		return Retry
	}
	return Initial
}

// IsFinal says whether nothing becomes of the job any more.
func (s Status) IsFinal() bool { return states[s] == Final }

// HasWorker says whether a worker has the job locked.
func (s Status) HasWorker() bool {
	return s == StatusLocked || s == StatusRunning || s == StatusAnswered || s == StatusDeciding
}

// State is where a job stands in its life.
//
//	            ┌───────────────────────────── retry ◄──┐
//	            ▼                                       │ the retry decision: again
//	initial ─► running ─► error ────────────────────────┤
//	            │                                       │ the retry decision: no
//	            └──────────────────────────► final ◄────┘
type State string

// The states. Nothing leaves Final.
const (
	// Initial: accepted, never tried.
	Initial State = "initial"
	// Running: committed before the handler begins. After a crash a row may say so although nothing runs any more.
	Running State = "running"
	// Error: the attempt failed and waits for the retry decision.
	Error State = "error"
	// Retry: the decision was to try again, at the scheduled run time.
	Retry State = "retry"
	// Final: over, well or (with an error) for good.
	Final State = "final"
)

// States are all states there are, in the order of a life.
var States = []State{Initial, Running, Error, Retry, Final}
