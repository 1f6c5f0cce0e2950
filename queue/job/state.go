package job

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
