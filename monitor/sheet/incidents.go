package sheet

import (
	"strings"

	"github.com/hipq/hipq/internal/texts"
)

type incidentView struct {
	Queue, JobType, Jobs, When, Error string
	Show, Retry, Dismiss              string
}

func (s Sheet) incident(i Incident) incidentView {
	when := "at " + s.minute(i.Last)
	if first, last := s.minute(i.First), s.minute(i.Last); first != last {
		when = "from " + first + " to " + last
	}
	return incidentView{
		Queue: i.Queue, JobType: name(i.JobType), Jobs: plural(i.Jobs, "job", "jobs"), When: when,
		Error: strings.TrimSpace(texts.Clip(i.Error, maxError)), Show: command(i.Show), Retry: command(i.Retry), Dismiss: command(i.Dismiss),
	}
}
