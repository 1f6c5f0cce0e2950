package ui

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// chart shows a queue's week by hours, in panels one above the other. An hour is one unit wide and a panel 100 units
// high; the browser scales it.
type chart struct {
	Hours  int
	Panels []panel
	Days   []day
	Slots  []slot
}

// panel is one measure, as bars up to the maximum.
type panel struct {
	Name, Class string
	// Said is the text for readers who can't see the panel.
	Said      string
	Bars, Top string
	// Logarithmic is set if the bars are.
	Logarithmic bool
}

// day is a midnight; X is its distance from the start, in hours.
type day struct {
	X    int
	Left string
	// Named reports whether there is room for name and date.
	Named      bool
	Name, Date string
}

// slot is an hour with its tooltip.
type slot struct {
	X      int
	Missed bool
	Said   string
}

type week struct {
	from    time.Time
	zone    *time.Location
	hours   []monitor.QueueHour
	missing []time.Time
}

// measure is what a panel shows of each hour: a number, or the 95th percentile of times. The bars of times are logarithmic, because
// on a linear scale long times hide all others.
type measure struct {
	name, class string
	number      func(monitor.QueueHour) int64
	times       func(monitor.QueueHour) monitor.Times
}

var measures = []measure{
	{"Finished", "finished", func(h monitor.QueueHour) int64 { return h.Finished }, nil},
	{"Failed", "failed", func(h monitor.QueueHour) int64 { return h.Failed }, nil},
	{"Tried again", "errors", func(h monitor.QueueHour) int64 { return h.Errors }, nil},
	{"Still due", "backlog", func(h monitor.QueueHour) int64 { return h.Backlog }, nil},
	{"Wait p95", "wait", nil, func(h monitor.QueueHour) monitor.Times { return h.Wait }},
	{"Run p95", "run", nil, func(h monitor.QueueHour) monitor.Times { return h.Run }},
}

// of is what an hour has; 0 for nothing.
func (m measure) of(h monitor.QueueHour) int64 {
	if m.times == nil {
		return m.number(h)
	}
	if p95 := m.times(h).P95MS; p95 != nil {
		return max(1, *p95)
	}
	return 0
}

func (m measure) say(n int64) string {
	if m.times != nil {
		return duration(n)
	}
	return texts.Thousands(n)
}

// height is that of a bar, of 100.
func (m measure) height(n, most int64) float64 {
	part := float64(n) / float64(most)
	if m.times != nil {
		part = math.Log1p(float64(n)) / math.Log1p(float64(most))
	}
	return max(3, 100*part)
}

// bars draws numbers of hours. An hour is one unit wide.
func (m measure) bars(hours []int64) (bars string) {
	most := slices.Max(hours)
	for x, n := range hours {
		if n > 0 {
			bars += fmt.Sprintf("M%s 100V%sh.84V100z", short(float64(x)+.08), short(100-m.height(n, most)))
		}
	}
	return bars
}

func (w week) at(t time.Time) int { return int(t.Sub(w.from) / time.Hour) }

func (w week) hour(x int) time.Time { return w.from.Add(time.Duration(x) * time.Hour).In(w.zone) }

func (w week) name(x int) string { return w.hour(x).Format("Mon 2 Jan 15:04") }

// chart draws the week; nil if nothing happened.
func (w week) chart() *chart {
	c := chart{Hours: len(w.hours), Days: w.days(), Slots: w.slots()}
	for _, m := range measures {
		hours := texts.Map(w.hours, m.of)
		if bars := m.bars(hours); bars != "" {
			most := slices.Max(hours)
			said := fmt.Sprintf("%s by hour: at most %s, on %s.", m.name, m.say(most), w.name(slices.Index(hours, most)))
			c.Panels = append(c.Panels, panel{m.name, m.class, said, bars, m.say(most), m.times != nil})
		}
	}
	if len(c.Panels) == 0 {
		return nil
	}
	return &c
}

func (w week) days() (days []day) {
	for x := range w.hours {
		t := w.hour(x)
		if t.Hour() == 0 || x > 0 && w.hour(x-1).YearDay() != t.YearDay() {
			left := short(100*float64(x)/float64(len(w.hours))) + "%"
			days = append(days, day{X: x, Left: left, Named: x*100 < len(w.hours)*90 && (len(w.hours) < 15*24 || t.Weekday() == time.Monday), Name: t.Format("Mon"), Date: t.Format("2")})
		}
	}
	return days
}

func (w week) slots() (slots []slot) {
	for x, h := range w.hours {
		var said []string
		missed := slices.ContainsFunc(w.missing, w.hour(x).Equal)
		for _, m := range measures {
			if n := m.of(h); n > 0 {
				text := strings.ToLower(m.name) + " " + m.say(n)
				if m.times != nil {
					text += ", p50 " + percentile(m.times(h).P50MS)
				}
				said = append(said, text)
			}
		}
		if missed {
			said = []string{"not aggregated"}
		}
		if len(said) > 0 {
			slots = append(slots, slot{x, missed, w.name(x) + ": " + strings.Join(said, ", ")})
		}
	}
	return slots
}

func bar(part, whole int64) string {
	if whole <= 0 || part <= 0 {
		return "0"
	}
	return short(min(100, max(1, 100*float64(part)/float64(whole))))
}

// short formats a coordinate with two decimals at most, because more can't be seen.
func short(f float64) string { return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64) }
