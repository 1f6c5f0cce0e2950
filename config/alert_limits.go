package config

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"time"

	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/job"
)

// off is the value of a limit that nothing exceeds.
const off = "off"

func jobAlertKeys() []string { return knownKeys(reflect.TypeFor[jobAlertSection]()) }

func (b builder) alert(s alertSection) monitor.Alert {
	a := monitor.DefaultAlert()
	a.Over = b.hours("alert.over", s.Over, a.Over)
	a.JobAlert = b.jobAlert("alert", s.jobAlertSection, a.JobAlert)
	a.DeadWorkers = b.limits("alert.dead_workers", limitsSection(s.DeadWorkers), a.DeadWorkers, numbers)
	a.NoTickFor = b.limits("alert.no_tick_for", limitsSection(s.NoTickFor), a.NoTickFor, spans)
	a.MissedHours = b.limits("alert.missed_hours", limitsSection(s.MissedHours), a.MissedHours, numbers)
	return a
}

// hours parses a time in whole hours, up to a week; empty means the default.
func (b builder) hours(path, text string, otherwise time.Duration) time.Duration {
	d, err := otherwise, error(nil)
	if text != "" {
		d, err = ParseDuration(text)
	}
	switch {
	case err != nil:
		b.refuse(path, "%w", err)
	case d < time.Hour || d > week:
		b.refuse(path, "%s is out of range (%s to %s)", shown(text), formatDuration(time.Hour), formatDuration(week))
	case d%time.Hour != 0:
		b.refuse(path, "%s is not in whole hours", shown(text))
	}
	b.note(path, formatDuration(d), text)
	return d
}

func (b builder) queueAlert(path string, s queueSection, a *monitor.Alert) {
	b.inherits(under(path, "alert"), "alert", jobAlertKeys()...)
	q := monitor.QueueAlert{JobAlert: b.jobAlert(under(path, "alert"), s.Alert, a.JobAlert), Types: map[string]monitor.JobAlert{}}
	for i, t := range s.JobTypes {
		at := under(element(under(path, "job_types"), i, t.Name), "alert")
		b.inherits(at, under(path, "alert"), jobAlertKeys()...)
		q.Types[t.Name] = b.jobAlert(at, t.Alert, q.JobAlert)
	}
	if all, ok := q.Types[job.AllTypes]; !ok || all == q.JobAlert { // otherwise types without it have that one's
		maps.DeleteFunc(q.Types, func(_ string, own monitor.JobAlert) bool { return own == q.JobAlert })
	}
	if q.JobAlert == a.JobAlert && len(q.Types) == 0 {
		return
	}
	if a.Queues == nil {
		a.Queues = map[string]monitor.QueueAlert{}
	}
	a.Queues[s.Name] = q
}

// jobAlert overrides the outer level's limits, key by key.
func (b builder) jobAlert(path string, s jobAlertSection, outer monitor.JobAlert) monitor.JobAlert {
	return monitor.JobAlert{
		ErrorRate: b.limits(path+".error_rate", limitsSection(s.ErrorRate), outer.ErrorRate, parts),
		Failed:    b.limits(path+".failed", limitsSection(s.Failed), outer.Failed, numbers),
		OldestDue: b.limits(path+".oldest_due", limitsSection(s.OldestDue), outer.OldestDue, spans),
		WaitP95:   b.limits(path+".wait_p95", limitsSection(s.WaitP95), outer.WaitP95, spans),
		RunP95:    b.limits(path+".run_p95", limitsSection(s.RunP95), outer.RunP95, spans),
		Backlog:   b.limits(path+".backlog", limitsSection(s.Backlog), outer.Backlog, numbers),
	}
}

// limits parses the two limits; the critical one can't be below the warning.
func (b builder) limits(path string, s limitsSection, outer monitor.Limits, kind limitKind) monitor.Limits {
	before := len(b.errs)
	l := monitor.Limits{
		Warning:  b.limit(path+".warning", s.Warning, outer.Warning, kind),
		Critical: b.limit(path+".critical", s.Critical, outer.Critical, kind),
	}
	if l != outer && len(b.errs) == before && l.Critical < l.Warning && l.Warning < monitor.Off {
		b.refuse(path+".critical", "%v is less than the warning, %v", kind.show(l.Critical), kind.show(l.Warning))
	}
	return l
}

func (b builder) limit(path, text string, otherwise float64, kind limitKind) float64 {
	value := otherwise
	switch text {
	case "":
	case off:
		value = monitor.Off
	default:
		var err error
		if value, err = kind.read(text); err != nil {
			b.refuse(path, "%w", err)
		}
	}
	if value == monitor.Off {
		b.note(path, off, text)
	} else {
		b.note(path, kind.show(value), text)
	}
	return value
}

// limitKind parses and shows the values of a kind of limit.
type limitKind struct {
	read func(text string) (float64, error)
	show func(value float64) any
}

// parts are numbers from 0 to 1.
var parts = limitKind{
	read: func(text string) (float64, error) {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f >= 0 && f <= 1) {
			return 0, fmt.Errorf("%s is not a number from 0 to 1, or off", shown(text))
		}
		return f, nil
	},
	show: func(value float64) any { return value },
}

var numbers = limitKind{
	read: func(text string) (float64, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxInt {
			return 0, fmt.Errorf("%s is not a whole number (0 to %d, or off)", shown(text), maxInt)
		}
		return float64(n), nil
	},
	show: func(value float64) any { return int(value) },
}

var spans = limitKind{
	read: func(text string) (float64, error) {
		d, err := ParseDuration(text)
		if err == nil && d > longest {
			err = fmt.Errorf("%s is out of range (0 to %s, or off)", shown(text), formatDuration(longest))
		}
		return d.Seconds(), err
	},
	show: func(value float64) any { return formatDuration(time.Duration(value * float64(time.Second))) },
}
