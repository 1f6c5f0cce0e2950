package queue

// Where a row stands for the queries that poll. The state says how far a job has come; the line says who has to look at
// it next, and it is what keeps all else out of the range that a lock walks.
const (
	lineNew      = "new"      // inserted by plain SQL, to be taken in
	lineDue      = "due"      // may be locked
	lineLater    = "later"    // to be promoted to due at its wake_time
	lineLocked   = "locked"   // a worker has it: initial or retry (not started yet) or running
	lineError    = "error"    // waits for the retry decision
	lineFinished = "finished" // final
	lineFailed   = "failed"   // final with an error
)
