package admin

import (
	"slices"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
)

// LongSilent is how long no worker may run before it looks as if cron starts none.
const LongSilent = 5 * time.Minute

// soon is within what time cron starts the next worker, usually.
const soon = 2 * time.Minute

// noWorker says that no worker will take the job: none runs, or those that run only wait for their last jobs, and cron starts no
// other. That is the first reason, because all others assume a worker.
func (w *Why) noWorker() {
	ended := len(w.Reasons)
	isCron := "is hipq work in crontab?"
	if w.by.Crontab != "" {
		isCron = "does cron run, and is this in the crontab? " + w.by.Crontab
	}
	lives := func(r workers.Row) bool { return w.now.Sub(r.Heartbeat.Time) < soon }
	waits := slices.IndexFunc(w.atWork, lives)
	switch takes := slices.ContainsFunc(w.atWork, func(r workers.Row) bool { return r.Accepting && lives(r) }); {
	case takes:
	case w.last == nil && waits < 0:
		w.add("no_worker", "cron has started no worker yet: %s", isCron)
	case waits >= 0 && (w.last == nil || w.now.Sub(w.last.StartTime.Time) > soon):
		r := w.atWork[waits]
		w.add("no_worker", "no worker starts jobs: worker %s (pid %d on %s), started at %s, is past its run_for and waits for its last jobs, and no other has started since: %s",
			r.ID, r.PID, r.Host, w.local(r.StartTime.Time), isCron)
	case w.last != nil:
		heard := slices.MaxFunc([]time.Time{w.last.Heartbeat.Time, w.last.EndTime.Time}, time.Time.Compare)
		silent := max(0, w.now.Sub(heard))
		w.addIf(silent > soon, "no_worker", "no worker runs: the last (%s, pid %d on %s) was active %s ago: %s",
			w.last.ID, w.last.PID, w.last.Host, texts.Duration(silent.Round(time.Second)), isCron)
	}
	w.Reasons = slices.Concat(w.Reasons[ended:], w.Reasons[:ended])
}
