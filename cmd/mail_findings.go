package cmd

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

var (
	// unmailed are the findings that monitor doesn't mail: hipq work has, or they are about past hours, which can't be changed.
	// --check has them.
	unmailed = []string{"left_out", "dead_workers", "wait_p95", "run_p95"}
	// unserved are those that follow where no worker runs, which is a finding itself.
	unserved = []string{"schedules", "oldest_due", "backlog", "shard_oldest_due"}
	// ofFailures are those that hipq work has told if it has named a failure of the job type.
	ofFailures = []string{"failed", "error_rate"}
)

// The first words of notices: what monitor has told, what follows from failures that hipq work has told, and what was over; those
// failures while they last; and slots without a job.
const (
	findingNotice = "finding"
	knownNotice   = "known"
	endedNotice   = "ended"
	openNotice    = "open"
	missedNotice  = "missed"
)

// findingAgain is after how long a finding that lasts is told again, endedAgain after how long one that was over.
const findingAgain, endedAgain = 24 * time.Hour, time.Hour

// found is a finding as its notice has it. Configs of other limits or schedules judge otherwise, and have notices of their own.
type found struct {
	config              string
	severity            monitor.Severity
	what, queue, ofType string
}

func (i *instance) found(f monitor.Finding) found {
	config := crc32.ChecksumIEEE(fmt.Append(nil, i.Alert, i.ScheduleNames()))
	return found{fmt.Sprintf("%08x", config), f.Severity, f.What, or0(f.Queue), or0(f.JobType)}
}

func (f found) notice(first string) string {
	words := []string{first, f.config, string(f.severity), f.what}
	if f.queue != "" {
		words = append(words, f.queue)
	}
	if f.ofType != "" { // which may end with a blank
		words = append(words, f.ofType)
	}
	return strings.Join(words, " ")
}

// foundOf is the finding of which a notice is; of another hipq's it has no severity.
func foundOf(notice string) (f found) {
	words := append(strings.SplitN(notice, " ", 6), "", "")
	if len(words) >= 6 {
		f = found{words[1], monitor.Severity(words[2]), words[3], words[4], words[5]}
	}
	return f
}

// of leaves out how bad it is.
func (f found) of() found {
	f.severity = ""
	return f
}

// findings are what one run of monitor has found, and what was said before it.
type findings struct {
	a     *app
	i     *instance
	log   alert.Log
	state monitor.State
	// idle says that no worker runs, which is a finding itself.
	idle bool
	// worst has how bad each thing is.
	worst map[found]monitor.Severity
	// The times of the notices, by their first words.
	said, known, ended, open map[string]time.Time
}

// mailFindings tells what exceeds its limits: each thing once, again if it gets worse, and after a day while it lasts. It also tells
// what is over. It reads the notices before the state, because another host may add some meanwhile.
func (a *app) mailFindings(ctx context.Context, i *instance) (err error) {
	m := findings{a: a, i: i, log: alert.NewLog(i.db), worst: map[found]monitor.Severity{}}
	for first, times := range map[string]*map[string]time.Time{findingNotice: &m.said, knownNotice: &m.known, endedNotice: &m.ended, openNotice: &m.open} {
		if *times, err = m.log.Under(ctx, first); err != nil {
			return err
		}
	}
	if m.state, err = i.state(ctx, i.Alert.Enough()); err != nil {
		return err
	}
	all := i.health(m.state, i.shared).Findings
	m.idle = slices.ContainsFunc(all, func(f monitor.Finding) bool { return f.What == "no_tick_for" })
	for _, f := range all {
		m.worst[i.found(f).of()] = f.Severity
		if err := m.tell(ctx, i.found(f), f.Text); err != nil {
			return err
		}
	}
	if err := m.tellEnds(ctx); err != nil {
		return err
	}
	if err := a.mailMended(ctx, i, m.log, m.state.At, m.open); err != nil {
		return err
	}
	return a.mailMissed(ctx, i, m.log, m.state.At)
}

// tell tells a finding, unless hipq work has told its cause, or it was over not long ago.
func (m *findings) tell(ctx context.Context, f found, text string) error {
	notice := f.notice(findingNotice)
	_, was := m.said[notice]
	_, known := m.known[f.notice(knownNotice)]
	lately := !was && m.state.At.Sub(m.ended[f.of().notice(endedNotice)]) < endedAgain
	outage := f.what == "no_tick_for" && m.a.fails("work", nil)
	if slices.Contains(unmailed, f.what) || m.idle && slices.Contains(unserved, f.what) || lately || outage {
		return nil
	}
	// hipq work doesn't tell that many jobs have failed
	told := !was && (f.what == "error_rate" || f.what == "failed" && f.severity == monitor.Warning) && hasOpen(m.open, f)
	if known || told {
		notice = f.notice(knownNotice)
	}
	return m.log.Once(ctx, notice, m.state.At, findingAgain, func() error {
		if told && !known {
			return nil
		}
		return m.a.tell(strings.ToUpper(string(f.severity))+": "+text, m.i.runAs())
	})
}

// tellEnds tells which findings of this config are over, and forgets what has become less bad.
func (m *findings) tellEnds(ctx context.Context) (err error) {
	config := m.i.found(monitor.Finding{}).config
	for _, notice := range slices.Sorted(maps.Keys(m.said)) {
		f := foundOf(notice)
		severity, lasts := m.worst[f.of()]
		switch {
		case severity == f.severity, severity == monitor.Critical, f.config != config, !lasts && !canEnd(m.state, f, m.idle):
		case lasts:
			_, err = m.log.Over(ctx, notice)
		default:
			err = m.tellEnd(ctx, notice, f)
			delete(m.said, notice)
		}
		if err != nil {
			return err
		}
	}
	for notice := range m.known {
		if f := foundOf(notice); m.worst[f.of()] == "" && f.config == config {
			if _, err := m.log.Over(ctx, notice); err != nil {
				return err
			}
		}
	}
	return nil
}

// canEnd says whether the state tells that a finding is over. It doesn't of a queue that can't be read, or where nothing runs.
func canEnd(s monitor.State, f found, idle bool) bool {
	switch {
	case f.queue != "" && !slices.Contains(s.Queues, f.queue):
		return false
	case idle:
		return !slices.Contains(unserved, f.what) && !slices.Contains(ofFailures, f.what)
	case f.what != "error_rate":
		return true
	}
	return slices.ContainsFunc(s.Types, func(t monitor.TypeState) bool {
		return t.Queue == f.queue && t.JobType == f.ofType && t.Last.Ended > 0
	})
}

// tellEnd tells that a finding is over: once, also if it was told as a warning and as critical.
func (m *findings) tellEnd(ctx context.Context, notice string, f found) error {
	of := ""
	if f.queue != "" {
		of = strings.TrimRight(f.queue+"/"+f.ofType, "/") + ": "
	}
	text := fmt.Sprintf("%s%s; the problem was mailed at %s", of, monitor.Over(f.what), m.i.local(m.said[notice]))
	for other := range m.said {
		if other != notice && foundOf(other).of() == f.of() {
			text = "" // the last notice tells it
		}
	}
	if err := m.a.tellOver(ctx, m.log, notice, m.said[notice], text); err != nil || text == "" {
		return err
	}
	return m.log.Note(ctx, []string{f.of().notice(endedNotice)}, m.state.At)
}

// tellOver tells that something is over that was noted at a time, if no other has; with an empty text it only forgets it.
func (a *app) tellOver(ctx context.Context, log alert.Log, notice string, noted time.Time, text string) error {
	ours, err := log.Over(ctx, notice)
	if err != nil || !ours || text == "" {
		return err
	}
	if err = a.tell("resolved: " + text); err != nil {
		err = errors.Join(err, log.Note(ctx, []string{notice}, noted))
	}
	return err
}

// mailMissed tells which schedules have slots without a job, because no worker ran in time: of each time once.
func (a *app) mailMissed(ctx context.Context, i *instance, log alert.Log, now time.Time) error {
	rows, err := scheduler.New(i.db, i.Schedules).Own(ctx)
	rows = slices.DeleteFunc(rows, func(r scheduler.Row) bool { return !r.Missed() })
	if err != nil || len(rows) == 0 {
		return err
	}
	names := texts.Map(rows, func(r scheduler.Row) string {
		return fmt.Sprintf("%s %s %s", missedNotice, r.Name, r.LeftSlot.UTC().Format(time.RFC3339))
	})
	said, err := log.Times(ctx, names)
	for n, r := range rows {
		if err == nil { // what was told is noted once a day, because purge deletes what is old
			err = log.Once(ctx, names[n], now, findingAgain, func() error {
				if !said[names[n]].IsZero() {
					return nil
				}
				return a.tell(fmt.Sprintf("schedule %s: %s", r.Name, r.LeftWhy), "look:  "+i.command("hipq schedules"), i.runAs())
			})
		}
	}
	return err
}
