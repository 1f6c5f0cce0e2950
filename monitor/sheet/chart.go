package sheet

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// A chart shows the hours of a week side by side, in panels one above the other. All drawing is in units of an hour across and
// of a hundredth of the panel up and down; the browser stretches it.

// chart is a queue's week.
type chart struct {
	Hours  int
	Panels []panel
	Days   []day
	Slots  []slot
}

// panel is one measure, as bars from 0 to Most, or as lines.
type panel struct {
	Name  string
	Class string
	// Said is what somebody is told who doesn't see it.
	Said  string
	Bars  string
	Lines []line
	// Scale are the labels at its side.
	Scale []label
}

// line is one of several in a panel.
type line struct{ Name, Path string }

// label stands at a height of a panel, in percent.
type label struct {
	Up   string
	Text string
}

// day is a midnight, so many hours from the beginning.
type day struct {
	X    int
	Left string
	// Name and Date are said of it, if there is room.
	Named      bool
	Name, Date string
}

// slot is an hour, with what is said of it when it is pointed at.
type slot struct {
	X      int
	Missed bool
	Said   string
}

// week is when the hours of a chart are.
type week struct {
	from, to time.Time
	zone     *time.Location
	missed   map[time.Time]bool
}

func (w week) hours() int { return int(w.to.Sub(w.from) / time.Hour) }

// at is the time of the hour at x.
func (w week) at(x int) time.Time { return w.from.Add(time.Duration(x) * time.Hour) }

// days are the midnights of the zone.
func (w week) days() (days []day) {
	all := w.hours()
	for x := range all {
		t := w.at(x).In(w.zone)
		if t.Hour() != 0 && (x == 0 || w.at(x-1).In(w.zone).YearDay() == t.YearDay()) {
			continue
		}
		days = append(days, day{
			X: x, Left: percent(float64(x), float64(all)), Named: x*100 < all*94, Name: t.Format("Mon"), Date: t.Format("2"),
		})
	}
	return days
}

func (w week) name(x int) string { return w.at(x).In(w.zone).Format("Mon 2 Jan 15:04") }

// bars draws the numbers of the hours from 0 to the largest. It draws nothing if all of them are 0.
func (w week) bars(name, class string, course map[int]*monitor.QueueHour, of func(*monitor.QueueHour) int64) (panel, bool) {
	most, at := int64(0), 0
	for x := range w.hours() {
		if q := course[x]; q != nil && of(q) > most {
			most, at = of(q), x
		}
	}
	if most == 0 {
		return panel{}, false
	}
	var path strings.Builder
	for x := range w.hours() {
		if q := course[x]; q != nil && of(q) > 0 {
			height := max(3, 100*float64(of(q))/float64(most))
			fmt.Fprintf(&path, "M%s 100V%sh.84V100z", short(float64(x)+.08), short(100-height))
		}
	}
	return panel{
		Name: name, Class: class, Bars: path.String(), Scale: []label{{"100%", texts.Thousands(most)}},
		Said: fmt.Sprintf("%s by hour: at most %s, on %s.", name, texts.Thousands(most), w.name(at)),
	}, true
}

// times draws the 95th percentiles of waits and runs, on a logarithmic scale: what takes long would hide all else.
func (w week) times(course map[int]*monitor.QueueHour) (panel, bool) {
	waits := func(q *monitor.QueueHour) *int64 { return q.Wait.P95MS }
	runs := func(q *monitor.QueueHour) *int64 { return q.Run.P95MS }
	least, most := int64(math.MaxInt64), int64(0)
	for _, q := range course {
		for _, ms := range []*int64{waits(q), runs(q)} {
			if ms != nil {
				least, most = min(least, *ms), max(most, *ms)
			}
		}
	}
	if least > most {
		return panel{}, false
	}
	scale := newScale(least, most)
	p := panel{Name: "p95", Class: "times", Said: "The 95th percentiles by hour.", Scale: scale.labels()}
	for _, l := range []struct {
		name string
		of   func(*monitor.QueueHour) *int64
	}{{"wait", waits}, {"run", runs}} {
		path, longest, at := w.steps(course, l.of, scale)
		if path != "" {
			p.Lines = append(p.Lines, line{l.name, path})
			p.Said += fmt.Sprintf(" Of the %s: at most %s, on %s.", l.name, duration(longest), w.name(at))
		}
	}
	return p, true
}

// steps is a line with a step at each hour, and gaps where there is no time.
func (w week) steps(course map[int]*monitor.QueueHour, of func(*monitor.QueueHour) *int64, scale scale) (path string, most int64, at int) {
	var b strings.Builder
	last := -2
	for x := range w.hours() {
		q := course[x]
		if q == nil || of(q) == nil {
			continue
		}
		ms := *of(q)
		y := short(min(98.5, max(1.5, 100-scale.up(ms))))
		if last == x-1 {
			fmt.Fprintf(&b, "V%sh1", y)
		} else {
			fmt.Fprintf(&b, "M%d %sh1", x, y)
		}
		last = x
		if ms >= most {
			most, at = ms, x
		}
	}
	return b.String(), most, at
}

// marks are the times, in milliseconds, at which a scale may begin and end.
var marks = []int64{1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 10 * 86_400_000}

// scale is a logarithmic one, of these marks.
type scale []int64

// newScale has the marks around what lies between the least and the most, two at least.
func newScale(least, most int64) scale {
	from := 0
	for from+2 < len(marks) && marks[from+1] <= least {
		from++
	}
	to := from + 1
	for to+1 < len(marks) && marks[to] < most {
		to++
	}
	return marks[from : to+1]
}

// up is how far up a time is, in percent.
func (s scale) up(ms int64) float64 {
	from, to := float64(s[0]), float64(s[len(s)-1])
	return 100 * math.Log(max(float64(ms), from)/from) / math.Log(to/from)
}

// labels are some of the marks, with room between them.
func (s scale) labels() []label {
	shown := []int64{s[0], s[len(s)-1]}
	if len(s) > 2 {
		shown = []int64{s[0], s[len(s)/2], s[len(s)-1]}
	}
	labels := make([]label, len(shown))
	for n, ms := range shown {
		labels[n] = label{percent(s.up(ms), 100), duration(ms)}
	}
	return labels
}

// chart is the week of a queue.
func (w week) chart(course map[int]*monitor.QueueHour) chart {
	c := chart{Hours: w.hours(), Days: w.days()}
	add := func(p panel, ok bool) {
		if ok {
			c.Panels = append(c.Panels, p)
		}
	}
	add(w.bars("Finished", "finished", course, func(q *monitor.QueueHour) int64 { return q.Finished }))
	add(w.bars("Failed", "failed", course, func(q *monitor.QueueHour) int64 { return q.Failed }))
	add(w.bars("Tried again", "errors", course, func(q *monitor.QueueHour) int64 { return q.Errors }))
	add(w.bars("Backlog", "backlog", course, func(q *monitor.QueueHour) int64 { return q.Backlog }))
	add(w.times(course))
	for x := range w.hours() {
		missed := w.missed[w.at(x)]
		if said := sayHour(course[x]); missed || said != "" {
			if missed {
				said = "not taken"
			}
			c.Slots = append(c.Slots, slot{x, missed, w.name(x) + ": " + said})
		}
	}
	return c
}

// sayHour says what happened in an hour.
func sayHour(q *monitor.QueueHour) string {
	if q == nil {
		return ""
	}
	var said []string
	add := func(n int64, what string) {
		if n > 0 {
			said = append(said, texts.Thousands(n)+" "+what)
		}
	}
	add(q.Finished, "finished")
	add(q.Failed, "failed")
	add(q.Errors, "tried again")
	add(q.Backlog, "left due")
	for _, t := range []struct {
		name string
		ms   *int64
	}{{"wait", q.Wait.P95MS}, {"run", q.Run.P95MS}} {
		if t.ms != nil {
			said = append(said, "p95 of "+t.name+" "+duration(*t.ms))
		}
	}
	return strings.Join(said, ", ")
}

// short is a number with as many digits as are seen.
func short(f float64) string { return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64) }

func percent(part, whole float64) string { return short(100*part/whole) + "%" }
