package queue

// The parts of a line, by which it is walked. Those of held are its groups.
const (
	partMain = "NONE"
	partFree = "free" // of due: what no limit holds back, for it weighs nothing
	partStop = "stop" // of locked: what its worker is asked to stop
)
