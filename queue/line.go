package queue

// Where a row stands for the queries that poll. The state says how far a job has come; the line says who has to look at
// it next, and it is what keeps all else out of the range that a lock walks.
const (
	lineNew      = "new"      // inserted by plain SQL, to be taken in
	lineDue      = "due"      // may be locked
	lineLater    = "later"    // to be promoted to due at its wake_time
	lineHeld     = "held"     // due, but its throttle group is full
	lineLocked   = "locked"   // a worker has it: initial or retry (not started yet), running, or error (being decided about)
	lineWaiting  = "waiting"  // running, for an answer from outside, until its wake_time
	lineError    = "error"    // waits for the retry decision
	lineFinished = "finished" // final
	lineFailed   = "failed"   // final with an error
)

// The parts of a line, by which it is walked. Those of held are its groups.
const (
	partMain = "NONE"
	partFree = "free" // of due: what no limit holds back, for it weighs nothing
	partStop = "stop" // of locked: what its worker is asked to stop
)
