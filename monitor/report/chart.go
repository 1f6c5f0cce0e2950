package report

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

// panel is one measure, as bars from 0 to the maximum, or as lines.
type panel struct {
	Name  string
	Class string
	// Said is the text for readers who can't see the panel.
	Said        string
	Bars        string
	Lines       []line
	Top, Bottom string
}

type line struct{ Name, Path string }

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

func (w week) at(t time.Time) int { return int(t.Sub(w.from) / time.Hour) }

func (w week) hour(x int) time.Time { return w.from.Add(time.Duration(x) * time.Hour).In(w.zone) }

func (w week) name(x int) string { return w.hour(x).Format("Mon 2 Jan 15:04") }

// chart draws the week; nil if nothing happened.
func (w week) chart() *chart {
	c := chart{Hours: len(w.hours), Days: w.days(), Slots: w.slots()}
	for _, p := range []panel{
		w.bars("Finished", "finished", func(h monitor.QueueHour) int64 { return h.Finished }),
		w.bars("Failed", "failed", func(h monitor.QueueHour) int64 { return h.Failed }),
		w.bars("Tried again", "errors", func(h monitor.QueueHour) int64 { return h.Errors }),
		w.bars("Backlog", "backlog", func(h monitor.QueueHour) int64 { return h.Backlog }),
		w.times(),
	} {
		if p.Said != "" {
			c.Panels = append(c.Panels, p)
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

// Spark draws the numbers of hours as bars from 0 to the largest, and nothing if all are 0. An hour is one unit wide, and the
// largest number is 100 units high.
func Spark(hours []int64) (bars string) {
	most := int64(0)
	for _, n := range hours {
		most = max(most, n)
	}
	for x, n := range hours {
		if n > 0 {
			height := max(3, 100*float64(n)/float64(most))
			bars += fmt.Sprintf("M%s 100V%sh.84V100z", short(float64(x)+.08), short(100-height))
		}
	}
	return bars
}

// bars draws the hourly numbers.
func (w week) bars(name, class string, of func(monitor.QueueHour) int64) (p panel) {
	hours := texts.Map(w.hours, of)
	if p.Bars = Spark(hours); p.Bars == "" {
		return p
	}
	most := slices.Max(hours)
	p.Name, p.Class, p.Top = name, class, texts.Thousands(most)
	p.Said = fmt.Sprintf("%s by hour: at most %s, on %s.", name, p.Top, w.name(slices.Index(hours, most)))
	return p
}

// times draws the 95th percentiles of waits and runs, on a logarithmic scale from 1 ms. On a linear scale, long times
// hide all others.
func (w week) times() (p panel) {
	longest := int64(0)
	for _, h := range w.hours {
		for _, ms := range []*int64{h.Wait.P95MS, h.Run.P95MS} {
			if ms != nil {
				longest = max(longest, *ms)
			}
		}
	}
	top := int64(100)
	for _, mark := range []int64{1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000} {
		if top < longest {
			top = mark
		}
	}
	for _, l := range []struct {
		name string
		of   func(monitor.QueueHour) *int64
	}{
		{"wait", func(h monitor.QueueHour) *int64 { return h.Wait.P95MS }},
		{"run", func(h monitor.QueueHour) *int64 { return h.Run.P95MS }},
	} {
		if path, most, at := w.steps(l.of, top); path != "" {
			p.Lines = append(p.Lines, line{l.name, path})
			p.Said += fmt.Sprintf(" Of the %s: at most %s, on %s.", l.name, duration(most), w.name(at))
		}
	}
	if len(p.Lines) > 0 {
		p.Name, p.Class, p.Top, p.Bottom = "p95 (logarithmic)", "times", duration(top), duration(1)
		p.Said = "The 95th percentiles by hour." + p.Said
	}
	return p
}

// steps is a line with a step at each hour, and a gap where an hour has no time.
func (w week) steps(of func(monitor.QueueHour) *int64, top int64) (path string, most int64, at int) {
	last := -2
	for x, h := range w.hours {
		ms := of(h)
		if ms == nil {
			continue
		}
		up := 100 * math.Log(float64(max(*ms, 1))) / math.Log(float64(top))
		y := short(min(98.5, max(1.5, 100-up)))
		if last == x-1 {
			path += fmt.Sprintf("V%sh1", y)
		} else {
			path += fmt.Sprintf("M%d %sh1", x, y)
		}
		last = x
		if *ms >= most {
			most, at = *ms, x
		}
	}
	return path, most, at
}

func (w week) slots() (slots []slot) {
	missed := map[int]bool{}
	for _, hour := range w.missing {
		missed[w.at(hour)] = true
	}
	for x, h := range w.hours {
		var said []string
		for _, n := range []struct {
			n    int64
			what string
		}{{h.Finished, "finished"}, {h.Failed, "failed"}, {h.Errors, "tried again"}, {h.Backlog, "left due"}} {
			if n.n > 0 {
				said = append(said, texts.Thousands(n.n)+" "+n.what)
			}
		}
		for _, t := range []struct {
			monitor.Times
			what string
		}{{h.Wait, "wait"}, {h.Run, "run"}} {
			if t.P50MS != nil && t.P95MS != nil && *t.P50MS != *t.P95MS {
				said = append(said, fmt.Sprintf("%s p50 %s, p95 %s", t.what, duration(*t.P50MS), duration(*t.P95MS)))
			} else if t.P95MS != nil {
				said = append(said, "p95 of "+t.what+" "+duration(*t.P95MS))
			}
		}
		if missed[x] {
			said = []string{"not aggregated"}
		}
		if len(said) > 0 {
			slots = append(slots, slot{x, missed[x], w.name(x) + ": " + strings.Join(said, ", ")})
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
