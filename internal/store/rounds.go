// Package rounds is what the packages queue and queue/worker say to each other: which attempts have ended, which jobs to run
// now, what there is to do.
package store

// Candidates are the due jobs of some types, as one worker knows them. The queue makes them, and reads them in its rounds. They
// are safe for concurrent use.
type Candidates interface {
	// Forget makes the next round read from the head of the line.
	Forget()
}

// Look says what there is to do in a queue.
type Look struct {
	// Due: a job of the given types may be started; never in a paused queue.
	Due bool
	// Held: jobs whose throttle groups were full wait for room.
	Held bool
	// Shards says that of each of the queue's shards.
	Shards []Startable
	// Waking: a later job's time has come, or that of an answer is over.
	Waking bool
	// New: a row inserted by plain SQL is to be taken in.
	New bool
	// Misplaced: a job was placed when the queue was divided otherwise.
	Misplaced bool
	// Dividing: a shard has too little of the queue's limit or its rate, and these weren't divided anew for a second.
	Dividing bool
	// Orphaned: a worker that is no more still has jobs.
	Orphaned bool
	// Undecided: a job of the given types waits for its retry decision.
	Undecided bool
}

// Nothing says that there is nothing to do.
func (l Look) Nothing() bool {
	return !l.Due && !l.Held && !l.Waking && !l.New && !l.Misplaced && !l.Dividing && !l.Orphaned && !l.Undecided
}

// Startable says what may be started in a shard.
type Startable struct {
	Due, Held bool
}
