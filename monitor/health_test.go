package monitor

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
)

var judged = time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)

// well is a state without findings whose every value is at its limit.
func well() State {
	p95 := int64(15 * 60_000)
	return State{
		At: judged, Over: 2 * time.Hour, LastTick: judged.Add(-5 * time.Minute),
		Types: []TypeState{{
			Queue: "mail", JobType: "send", Backlog: 10_000, OldestDue: 15 * time.Minute,
			Counts: Counts{Finished: 95, Errors: 3, Failed: 2, Wait: Times{P95MS: &p95}, Run: Times{P95MS: new(int64(1) << 50)}},
		}},
	}
}

func TestJudge(t *testing.T) {
	long, short := int64(3_600_001), int64(1)
	for _, c := range []struct {
		name   string
		change func(*State, *Alert)
		// want has a line "severity what queue/type" for each finding, in order
		want string
		// text is part of the first finding's text, or of the verdict if all is well
		text string
	}{
		{"at the limits", func(*State, *Alert) {}, "", "all is well: the last sign of a worker is 5 min old, 10,000 jobs are due"},
		{"nothing at all", func(s *State, _ *Alert) { *s = State{At: judged} }, "", "all is well: cron has started no worker yet, 0 jobs are due"},
		{
			"error rate", func(s *State, _ *Alert) { s.Types[0].Counts.Errors++ }, "warning error_rate mail/send",
			"mail/send: 5.94 % of 101 attempts in 2 h ended with an error: hipq activity --queue mail --type send --state error (warning above 5 %)",
		},
		{
			"disk full", func(s *State, _ *Alert) { s.Disk = &Disk{Folder: "/srv", Free: 99e6, All: 20e9} }, "critical disk",
			"the disk is full: 99.0 MB of 20.0 GB are free in /srv; free disk space outside the database, then hipq purge --older-than 3d",
		},
		{"disk nearly full", func(s *State, _ *Alert) { s.Disk = &Disk{Folder: "/srv", Free: 999e6, All: 20e9} }, "warning disk", "the disk is nearly full: "},
		{"enough of a large disk", func(s *State, _ *Alert) { s.Disk = &Disk{Free: 2e9, All: 1e12} }, "", ""},
		{"a small disk", func(s *State, _ *Alert) { s.Disk = &Disk{Free: 5.8e6, All: 6e6} }, "", ""},
		{"a small disk, nearly full", func(s *State, _ *Alert) { s.Disk = &Disk{Free: 200e3, All: 6e6} }, "warning disk", "nearly full"},
		{"a small disk, full", func(s *State, _ *Alert) { s.Disk = &Disk{Free: 100e3, All: 6e6} }, "critical disk", "is full"},
		{"in the zone of the config", func(s *State, _ *Alert) {
			s.Zone, s.Until, s.Types[0].Counts = time.FixedZone("CET", 3600), judged, Counts{Failed: 20}
		}, "critical error_rate mail/send", "in 2 h up to 02:00 CET ended"},
		{"all attempts failed", func(s *State, _ *Alert) { s.Types[0].Counts = Counts{Failed: 20} }, "critical error_rate mail/send", "100 % of 20 attempts"},
		{"too few to say", func(s *State, _ *Alert) { s.Types[0].Counts = Counts{Failed: 19} }, "", ""},
		{
			"the last attempts failed, of many jobs", func(s *State, _ *Alert) {
				s.Types[0].Last = LastAttempts{Ended: 6, Bad: 5, Since: engine.At(judged.Add(-5 * time.Minute)), failing: map[int64]bool{1: true, 2: true, 3: true, 4: true, 5: true}}
			}, "critical error_rate mail/send", "mail/send: 83.3 % of the last 6 attempts, since 00:55 UTC, ended with an error: hipq activity --queue mail --type send --state error" +
				"; this clears when attempts succeed, or an hour after the last error (critical above 25 %)",
		},
		{
			"the last attempts failed, of jobs that wait for a retry", func(s *State, _ *Alert) {
				s.Types[0].Last, s.Types[0].Retrying = LastAttempts{Ended: 20, Bad: 20, failed: 11, newer: []int64{0, 1, 2, 3}}, 1
			}, "critical error_rate mail/send", "ended with an error: hipq failures mail (critical above 25 %)",
		},
		{
			"the last jobs failed for good", func(s *State, _ *Alert) {
				s.Types[0].Last = LastAttempts{Ended: 20, Bad: 20, failed: 11, newer: []int64{0, 1, 2, 3}}
			},
			"critical error_rate mail/send", "--type send --state failed; this clears",
		},
		{"a row without a type", func(s *State, _ *Alert) { s.Types[0].JobType, s.Types[0].Failed = "", 1 }, "warning failed mail/", "mail/'': 1 job failed"},
		{"jobs will be retried", func(s *State, _ *Alert) { s.Types[0].Retrying = 3 }, "", "10,000 jobs are due, 3 jobs will be retried"},
		{"more jobs will be retried", func(s *State, _ *Alert) { s.Types[0].Retrying, s.MoreRetrying = 3, true }, "", "10,000 jobs are due, at least 3 jobs will be retried"},
		{"the last attempts failed, of one job", func(s *State, _ *Alert) {
			s.Types[0].Last = LastAttempts{Ended: 19, Bad: 19, failing: map[int64]bool{1: true}}
		}, "", ""},
		{
			"failed", func(s *State, _ *Alert) { s.Types[0].Failed = 1 }, "warning failed mail/send",
			"mail/send: 1 job failed for good and is still open; see: hipq failures mail (warning above 0)",
		},
		{"many failed", func(s *State, _ *Alert) { s.Types[0].Failed = 5000 }, "critical failed mail/send", "5,000 jobs failed for good"},
		{"oldest due", func(s *State, _ *Alert) { s.Types[0].OldestDue += time.Millisecond }, "warning oldest_due mail/send", "due for 15 min: "},
		{"oldest due for a day", func(s *State, _ *Alert) { s.Types[0].OldestDue = 25 * time.Hour }, "critical oldest_due mail/send", "due for 1 d 1 h: "},
		{"waits", func(s *State, _ *Alert) { s.Types[0].Counts.Wait.P95MS = &long }, "warning wait_p95 mail/send", "5 had waited for 1 h or more (warning above 15 min)"},
		{
			"runs", func(s *State, a *Alert) { a.RunP95 = Limits{0, 60}; s.Types[0].Counts.Run.P95MS = &short },
			"warning run_p95 mail/send", "5 took 1 ms or more (warning above 0 s)",
		},
		{"backlog", func(s *State, _ *Alert) { s.Types[0].Backlog = 100_001 }, "critical backlog mail/send", "100,001 jobs are due (critical above 100,000)"},
		{"paused", func(s *State, _ *Alert) {
			s.Types[0].Paused, s.Types[0].Backlog, s.Types[0].OldestDue, s.Types[0].Failed = true, 200_000, 2*time.Hour, 200
		}, "critical failed mail/send\nwarning oldest_due mail/send\nwarning backlog mail/send", "200 jobs failed"},
		{"dead workers", func(s *State, _ *Alert) { s.DeadWorkers = 1 }, "warning dead_workers", "1 worker died in the last 2 h"},
		{"no tick", func(s *State, _ *Alert) { s.LastTick = judged.Add(-16 * time.Minute) }, "critical no_tick_for", "no sign of a worker for 16 min: "},
		{"a worker's clock is ahead", func(s *State, _ *Alert) { s.LastTick = judged.Add(time.Hour) }, "", "is 0 s old"},
		{
			"no tick ever", func(s *State, a *Alert) { s.LastTick = time.Time{}; a.OldestDue.Warning = Off }, "warning no_tick_for",
			"cron has started no worker yet, and a job has been due for 15 min: is hipq work in crontab? (warning above 5 min)",
		},
		{"missed hours", func(s *State, _ *Alert) { s.MissedHours = 25 }, "critical missed_hours", "25 hours of the last week have no metrics"},
		{"gone hours", func(s *State, _ *Alert) { s.MissedHours, s.GoneHours = 3, 2 }, "warning missed_hours", "aggregates them, but not 2 of them, whose activity was purged"},
		{"left out", func(s *State, _ *Alert) { s.LeftOut = []LeftOut{{"new", "no table; run hipq init"}} }, "critical left_out new", "queue new is left out: no table; run hipq init"},
		{"nearest limits win", func(s *State, a *Alert) {
			a.Queues = map[string]QueueAlert{
				"mail":  {JobAlert: JobAlert{Failed: Limits{3, 5}, Backlog: Limits{Off, Off}, OldestDue: Limits{Off, Off}, ErrorRate: Limits{Off, Off}, WaitP95: Limits{Off, Off}, RunP95: Limits{Off, Off}}},
				"files": {Types: map[string]JobAlert{"pack": {Failed: Limits{Off, 9}, Backlog: Limits{1, 2}}}},
			}
			s.Types = []TypeState{
				{Queue: "files", JobType: "pack", Failed: 9, Backlog: 2},   // its own
				{Queue: "mail", JobType: "send", Failed: 4, Backlog: 1e12}, // its queue's
				{Queue: "other", JobType: "x", Failed: 1, Backlog: 9},      // the instance's
			}
		}, "warning failed mail/send\nwarning failed other/x\nwarning backlog files/pack", "4 jobs failed"},
		{"a repaired incident", func(s *State, _ *Alert) {
			s.Types[0].Counts = Counts{Failed: 900, Finished: 100}
			s.Types[0].Last = LastAttempts{Ended: 1000, Bad: 900, newer: []int64{20}}
		}, "", ""},
		{"not enough successes yet", func(s *State, _ *Alert) {
			s.Types[0].Last = LastAttempts{Ended: 1000, Bad: 900, newer: []int64{19}}
		}, "warning error_rate mail/send", "mail/send: 90 % of the last 1000 attempts"},
		{"still failing now and then", func(s *State, _ *Alert) {
			s.Types[0].Last = LastAttempts{Ended: 1000, Bad: 100, newer: []int64{0, 49, 50}} // 2 of 50 are 4 %, more than half the limit
		}, "warning error_rate mail/send", "10 % of the last 1000 attempts"},
		{"nothing runs, beside worse findings", func(s *State, _ *Alert) {
			s.LastTick, s.Types[0].Failed = judged.Add(-6*time.Minute), 101
		}, "warning no_tick_for\ncritical failed mail/send", "no sign of a worker"},
		{"the worst first", func(s *State, _ *Alert) {
			s.DeadWorkers, s.MissedHours = 1, 30
			s.Types = append(s.Types, TypeState{Queue: "mail", JobType: "z", Failed: 101, Backlog: 10_001})
		}, "critical failed mail/z\ncritical missed_hours\nwarning backlog mail/z\nwarning dead_workers", "101 jobs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, a := well(), DefaultAlert()
			c.change(&s, &a)
			h := a.Judge(s)
			var got []string
			want, said := OK, h.Text
			for _, f := range h.Findings {
				dbtest.Ensure(t, kindOf(f.What) >= 0, "%s is no kind of finding", f.What)
				want = []Severity{OK, Warning, Critical}[max(want.Rank(), f.Severity.Rank())]
				line := string(f.Severity) + " " + f.What
				if f.Queue != nil {
					line += " " + *f.Queue
				}
				if f.JobType != nil {
					line += "/" + *f.JobType
				}
				got = append(got, line)
				dbtest.Ensure(t, f.Value > f.Limit, "%v is not more than %v: %s", f.Value, f.Limit, f.Text)
			}
			dbtest.Same(t, cmp.Diff(c.want, strings.Join(got, "\n")), "", "(-want +got)")
			if len(h.Findings) > 0 {
				said = h.Findings[0].Text
			}
			dbtest.Ensure(t, strings.Contains(said, c.text), "it says %q, want %q in it", said, c.text)
			dbtest.Same(t, h.Severity, want, "the verdict")
		})
	}
	s := well()
	s.DeadWorkers, s.MissedHours = 1, 30
	const says = "1 critical, 1 warning: 30 hours of the last week have no metrics: hipq monitor --missing aggregates them (critical above 24)" +
		"; and 1 more: dead_workers"
	dbtest.Same(t, DefaultAlert().Judge(s).Text, says, "the verdict says")
	s.Until, s.Types[0].Failed, s.Types[0].Counts.Errors = time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), 5074, 400
	s.LeftOut = []LeftOut{{"new", "no table"}}
	h := DefaultAlert().Judge(s)
	const full = "4 critical, 1 warning: queue new is left out: no table; and 4 more: mail/send failed, mail/send error_rate, missed_hours, …"
	dbtest.Same(t, h.Text, full, "the verdict says")
	rate := h.Findings[2].Text
	dbtest.Ensure(t, strings.Contains(rate, "attempts in 2 h up to 00:00 UTC ended"), "of the error rate it says %q", rate)
}

// A count that stopped at a limit is judged by it, and reported as more.
func TestJudgeWhatWasNotCounted(t *testing.T) {
	a := DefaultAlert()
	dbtest.Same(t, a.Enough(), 100_000, "it is enough to count")
	a.Queues = map[string]QueueAlert{"mail": {JobAlert: a.JobAlert, Types: map[string]JobAlert{"send": {Backlog: Limits{Warning: 200_000.5, Critical: Off}}}}}
	most := a.Enough()
	dbtest.Same(t, most, 200_001, "it is enough to count")
	s := State{At: judged, Over: 2 * time.Hour, LastTick: judged, Most: most, Types: []TypeState{
		{Queue: "mail", JobType: "send", Backlog: most + 1}, {Queue: "mail", JobType: "print", Failed: most + 1},
	}}
	h := a.Judge(s)
	if len(h.Findings) != 2 || !strings.Contains(h.Findings[0].Text, "print: more than 200,001 jobs failed for good") ||
		!strings.Contains(h.Findings[1].Text, "send: more than 200,001 jobs are due (warning above 200000.5)") {
		t.Errorf("%+v", h.Findings)
	}
}
