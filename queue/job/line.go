package job

// Line is where a row stands for the queries that poll. The state says how far a job has come; the line says who has to
// look at it next, and it is what keeps all else out of the range from which candidates are read.
type Line string

// The lines.
const (
	// LineNew: inserted by plain SQL, to be taken in.
	LineNew Line = "new"
	// LineDue: may be started.
	LineDue Line = "due"
	// LineLater: to be promoted to due at its wake_time.
	LineLater Line = "later"
	// LineHeld: due, but its throttle group is full.
	LineHeld Line = "held"
	// LineLocked: a worker has it, in running, or error (being decided about). In initial or retry it is a program's that
	// locks a job and starts it later; a round starts what it locks.
	LineLocked Line = "locked"
	// LineWaiting: running, for an answer from outside, until its wake_time.
	LineWaiting Line = "waiting"
	// LineError: waits for the retry decision.
	LineError Line = "error"
	// LineFinished: final.
	LineFinished Line = "finished"
	// LineFailed: final with an error.
	LineFailed Line = "failed"
	// LineClosed: final with an error, and nothing is to be done about it any more: it was retried, dismissed, or
	// cancelled.
	LineClosed Line = "closed"
)
