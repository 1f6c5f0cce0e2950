package store

import "strconv"

// PausedExpr is whether the queue is paused, as an expression; its parameter is the queue's name.
func (q *Queue) PausedExpr() string {
	return "EXISTS (SELECT 1 FROM " + q.db.Queues() + " WHERE queue = ? AND paused = 1)"
}

// isOpenQueue is an expression: the queue that is its parameter isn't paused, and is divided as these options say.
func (q *Queue) isOpenQueue() string {
	return "NOT EXISTS (SELECT 1 FROM " + q.db.Queues() + " q WHERE q.queue = ? AND (q.paused = 1 OR q.division <> " +
		strconv.Itoa(q.Division().Number()) + "))"
}
