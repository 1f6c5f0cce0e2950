package timetable

// Take enqueues what is due by a row as it was read.
var Take = (*Timetable).take
