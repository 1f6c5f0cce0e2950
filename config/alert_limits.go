package config

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/job"
)

// off is the value of a limit that nothing exceeds.
const off = "off"

func alertOf(s alertSection) monitor.Alert {
	return monitor.Alert{
		Over:        s.Over,
		JobAlert:    jobAlertOf(s.jobAlertSection),
		DeadWorkers: monitor.Limits(s.DeadWorkers),
		NoTickFor:   monitor.Limits(s.NoTickFor),
		MissedHours: monitor.Limits(s.MissedHours),
	}
}

func jobAlertOf(s jobAlertSection) monitor.JobAlert {
	return monitor.JobAlert{
		ErrorRate: monitor.Limits(s.ErrorRate),
		Failed:    monitor.Limits(s.Failed),
		OldestDue: monitor.Limits(s.OldestDue),
		WaitP95:   monitor.Limits(s.WaitP95),
		RunP95:    monitor.Limits(s.RunP95),
		Backlog:   monitor.Limits(s.Backlog),
	}
}

// queueAlert adds the limits of a queue that differ from the instance's.
func queueAlert(s queueSection, a *monitor.Alert) {
	q := monitor.QueueAlert{JobAlert: jobAlertOf(s.Alert), Types: map[string]monitor.JobAlert{}}
	for _, t := range s.JobTypes {
		q.Types[t.Name] = jobAlertOf(t.Alert)
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

func (s *partLimitsSection) check(c *checker, path string) {
	c.limits(path, monitor.Limits(*s), "part")
}

func (s *countLimitsSection) check(c *checker, path string) {
	c.limits(path, monitor.Limits(*s), "count")
}

func (s *timeLimitsSection) check(c *checker, path string) {
	c.limits(path, monitor.Limits(*s), "time")
}

// limits refuses a critical limit below the warning.
func (c *checker) limits(path string, l monitor.Limits, kind string) {
	if show := limitKinds[kind].show; l.Critical < l.Warning && l.Warning < monitor.Off {
		c.refuse(path+".critical", "%v is less than the warning, %v", show(l.Critical), show(l.Warning))
	}
}

// limitKind parses and shows the values of a kind of limit.
type limitKind struct {
	read func(text string) (float64, error)
	show func(value float64) any
}

var limitKinds = map[string]limitKind{
	"part": {
		read: func(text string) (float64, error) {
			f, err := strconv.ParseFloat(text, 64)
			if err != nil || !(f >= 0 && f <= 1) {
				return 0, fmt.Errorf("%s is not a number from 0 to 1, or off", shown(text))
			}
			return f, nil
		},
		show: func(value float64) any { return value },
	},
	"count": {
		read: func(text string) (float64, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || n > maxInt {
				return 0, fmt.Errorf("%s is not a whole number (0 to %d, or off)", shown(text), maxInt)
			}
			return float64(n), nil
		},
		show: func(value float64) any { return int(value) },
	},
	"time": {
		read: func(text string) (float64, error) {
			d, err := ParseDuration(text)
			if err == nil && d > longest {
				err = fmt.Errorf("%s is out of range (0 to %s, or off)", shown(text), formatDuration(longest))
			}
			return d.Seconds(), err
		},
		show: func(value float64) any { return formatDuration(time.Duration(value * float64(time.Second))) },
	},
}
