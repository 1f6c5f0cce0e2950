package scheduler

// Take enqueues what is due by a given row.
var Take = (*Scheduler).take
