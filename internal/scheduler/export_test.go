package scheduler

// Take enqueues what is due by a row as it was read.
var Take = (*Scheduler).take
