package sheet

import (
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// view is what the template shows: texts, and nothing left to work out.
type view struct {
	Instance, Period, Made, Zone string
	Verdict                      *verdict
	Trends                       []string
	Figures                      []figure
	Queues                       []queueView
	Throttles                    []throttleView
	Slowest, Failing             ranking
	Incidents                    []incidentView
	Hosts                        *hostsView
	// Missing are the hours that nobody has taken, MoreMissing is how many there are besides, and TakeMissing the command that takes
	// them.
	Missing     []string
	MoreMissing int
	TakeMissing string
}

type throttleView struct{ Queue, Text, Bar string }

const maxMissing = 12

// How much is shown of a text that others have written, in bytes: of a name, of a sentence, of an error.
const (
	maxName     = 256
	maxSentence = 1 << 10
	maxError    = 4 << 10
	maxCommand  = 4 << 10
)

func (s Sheet) view() view {
	if s.Zone == nil {
		s.Zone = time.UTC
	}
	v := view{
		Instance: s.Instance, Zone: s.Zone.String(), Period: s.instant(s.Report.Hour.Add(time.Hour)), Made: s.instant(s.Made),
		Verdict: s.verdict(), Queues: s.queues(), Hosts: s.hosts(),
	}
	if day := s.window(dayWindow); day != nil {
		v.Figures = s.figures(day)
		v.Slowest, v.Failing = slowest(day), failing(day)
	}
	v.Slowest.link(v.Queues)
	v.Failing.link(v.Queues)
	for _, t := range s.Trends {
		v.Trends = append(v.Trends, texts.Clip(t, maxSentence))
	}
	for _, i := range s.Incidents {
		v.Incidents = append(v.Incidents, s.incident(i))
	}
	for _, t := range s.Throttles {
		v.Throttles = append(v.Throttles, throttleView{
			t.Queue, texts.Thousands(t.Used) + " of " + texts.Thousands(t.Limit), bar(t.Used, t.Limit),
		})
	}
	missing := s.Report.Missing
	v.MoreMissing = max(0, len(missing)-maxMissing)
	for _, hour := range missing[:len(missing)-v.MoreMissing] {
		v.Missing = append(v.Missing, hour.UTC().Format(time.RFC3339))
	}
	switch len(missing) {
	case 0:
	case 1:
		v.TakeMissing = "hipq monitor --at " + v.Missing[0]
	default:
		v.TakeMissing = "hipq monitor --missing --since " + v.Missing[0]
	}
	return v
}

// The windows of the report that the page shows.
const (
	dayWindow  = "1d"
	weekWindow = "1w"
)

var shownWindows = []struct{ window, name string }{{"6h", "6 hours"}, {dayWindow, "day"}, {weekWindow, "week"}}

func (s Sheet) window(name string) *monitor.Window {
	for i := range s.Report.Windows {
		if s.Report.Windows[i].Name == name {
			return &s.Report.Windows[i]
		}
	}
	return nil
}

// instant is a time with its date, minute is one within the last weeks.
func (s Sheet) instant(t time.Time) string { return t.In(s.Zone).Format("Mon 2 Jan 2006, 15:04") }

func (s Sheet) minute(t time.Time) string { return t.In(s.Zone).Format("Mon 2 Jan 15:04") }

// name is a name that others have given, on a line.
func name(text string) string {
	return strings.Join(strings.Fields(texts.Clip(text, maxName)), " ")
}

// command is what to type in. One that can't be shown as it is would be another: then it is none.
func command(text string) string {
	if len(text) > maxCommand || strings.ContainsAny(text, "\n\t") || texts.IndexHidden(text) < len(text) {
		return ""
	}
	return text
}
