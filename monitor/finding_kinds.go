package monitor

import "slices"

// kinds lists all kinds of findings by their What, the most urgent first: nothing runs, jobs wait or failed, jobs will
// wait, metrics are incomplete. over is the text when the finding is gone.
var kinds = []struct{ what, over string }{
	{"no_tick_for", "a worker runs again"},
	{"disk", "the disk has room again"},
	{"left_out", "the queue is served again"},
	{"high_ids", "no table is running out of ids"},
	{"schedules", "no slot of a schedule is overdue"},
	{"oldest_due", "no job has been due for too long"},
	{"misplaced", "no job waits to be moved to its shard"},
	{"shard_oldest_due", "no shard is far behind the others"},
	{"shard_parts", "the shards hold no more than the throttle limit"},
	{"failed", "the number of failed jobs is within its limits"},
	{"error_rate", "the error rate is within its limits"},
	{"backlog", "the number of due jobs is within its limits"},
	{"dead_workers", "the number of workers that died is within its limits"},
	{"wait_p95", "jobs start in time"},
	{"run_p95", "attempts take no longer than the limits allow"},
	{"missed_hours", "the number of hours without metrics is within its limits"},
}

func kindOf(what string) int {
	return slices.IndexFunc(kinds, func(k struct{ what, over string }) bool { return k.what == what })
}

// Over is the text for a finding that is gone, by its What.
func Over(what string) string {
	if k := kindOf(what); k >= 0 {
		return kinds[k].over
	}
	return "it is no longer a finding" // another version of hipq reported it
}
