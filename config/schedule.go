package config

import (
	"slices"
	"strings"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
)

// schedule reads the i-th schedule, whose queue must be one of c's.
func (b builder) schedule(i int, s scheduleSection, c *Config) schedule.Schedule {
	path := element("schedules", i, s.Name)
	before := len(b.errs)
	o := schedule.Schedule{
		Name: s.Name, Spec: b.spec(path+".when", s.When), Location: c.Location, Queue: s.Queue, Jitter: s.Jitter, Missed: s.Missed,
		Job: job.Params{Type: s.Type, Data: s.Data, Key: s.Key, Timeout: s.Timeout},
	}
	b.ownName("schedules", i, "schedule", s.Name, schedule.CheckName)
	if s.Zone != b.Timezone {
		o.Location = b.zone(path+".zone", s.Zone)
	}
	b.scheduled(path, s, c)
	if s.Priority >= -maxInt { // otherwise its jobs have their type's
		o.Job.Priority = &s.Priority
	}
	if s.ThrottleFactor >= 0 {
		o.Job.ThrottleFactor = &s.ThrottleFactor
	}
	if !b.isFaulty(path) && len(b.errs) == before && s.Name != "" && s.When != "" && s.Type != "" { // the package's own remaining rules
		if err := o.Check(); err != nil {
			b.refuseName(path, s.Data, err)
		}
	}
	return o
}

func (b builder) spec(path, text string) schedule.Spec {
	if text == "" {
		b.missing(path, `; write the five fields of a crontab, such as "30 2 * * *", or @hourly, @daily, @every 10m`)
		return schedule.Spec{}
	}
	spec, err := schedule.ParseSpec(text)
	if err != nil {
		b.refuseName(path, text, err)
	}
	return spec
}

// scheduled refuses an unknown queue, and an unknown type of a queue with strict_types.
func (b builder) scheduled(path string, s scheduleSection, c *Config) {
	names := c.QueueNames()
	n := slices.Index(names, s.Queue)
	switch {
	case s.Queue == "":
		b.missing(path+".queue", "; write the name of one of the queues")
	case n < 0:
		b.refuse(path+".queue", "%s is not a queue of this config; it has %s", shown(s.Queue), strings.Join(names, ", "))
	}
	switch {
	case s.Type == "":
		b.missing(path+".type", "; write the type of its jobs")
	case n >= 0 && c.Queues[n].StrictTypes && !slices.Contains(c.Queues[n].TypeNames(), s.Type):
		b.refuse(path+".type", "%s is not one of the job types of %s, which takes no others (strict_types)", shown(s.Type), s.Queue)
	case n >= 0 && c.Queues[n].RefuseWeightless && s.ThrottleFactor == 0:
		b.refuse(path+".throttle_factor", "0 would bypass the throttle limit and groups, which queues.%s.allow_weightless: false refuses", s.Queue)
	case n >= 0:
		if near := c.Queues[n].Nearest(s.Type); near != "" && near != s.Type { // probably misspelt
			b.warn("%s.type: this config names no job type %s in queue %s; did you mean %s?", path, shown(s.Type), s.Queue, near)
		}
	}
}
