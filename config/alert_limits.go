package config

import (
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/job"
)

// off is the value of a limit that nothing exceeds.
const off = "off"

// queueAlert adds the limits of a queue that differ from the instance's.
func queueAlert(s queueSection, a *monitor.Alert) {
	q := monitor.QueueAlert{JobAlert: s.Alert, Types: map[string]monitor.JobAlert{}}
	for _, t := range s.JobTypes {
		q.Types[t.Name] = t.Alert
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

// limits refuses a critical limit below the warning.
func (c *checker) limits(path string, l monitor.Limits, kind string) {
	if l.Critical < l.Warning && l.Warning < monitor.Off {
		c.refuse(path+".critical", "%v is less than the warning, %v", showLimit(l.Critical, kind), showLimit(l.Warning, kind))
	}
}

// limitKinds are the types of limits' values. Times are in seconds.
var limitKinds = map[string]reflect.Type{
	"part": reflect.TypeFor[float64](), "count": reflect.TypeFor[int](), "time": reflect.TypeFor[time.Duration](),
}

func (c *checker) readLimit(text, kind string) (float64, error) {
	if text == off {
		return monitor.Off, nil
	}
	v, err := c.read(text, limitKinds[kind], "")
	if err != nil {
		return 0, fmt.Errorf("%w, or off", err)
	}
	if d, ok := v.(time.Duration); ok {
		return d.Seconds(), nil
	}
	return reflect.ValueOf(v).Convert(limitKinds["part"]).Float(), nil
}

func showLimit(value float64, kind string) any {
	switch {
	case value == monitor.Off:
		return off
	case kind == "count":
		return int(value)
	case kind == "time":
		return formatDuration(time.Duration(value * float64(time.Second)))
	}
	return value
}
