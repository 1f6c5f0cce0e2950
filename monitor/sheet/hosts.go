package sheet

import (
	"slices"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// hostsView is the week of the hosts, a strip for each.
type hostsView struct {
	Hours int
	Days  []day
	Hosts []hostView
}

type hostView struct {
	Name, Ticks string
	// Said is what somebody is told who doesn't see the strip, Longest what everybody is told of its gaps.
	Said, Longest string
	Since         *stretch
	Gaps          []stretch
}

// stretch is a time on a strip, in hours from its beginning.
type stretch struct{ X, Width, Said string }

// leastSeen is as short as a gap can be and still be seen on a phone, in hours.
const leastSeen = .5

func (s Sheet) hosts() *hostsView {
	longest := s.window(weekWindow)
	if len(s.Hosts) == 0 || longest == nil {
		return nil
	}
	w := week{from: longest.From, to: longest.To, zone: s.Zone}
	v := hostsView{Hours: w.hours(), Days: w.days()}
	for _, h := range s.Hosts {
		v.Hosts = append(v.Hosts, s.host(w, h))
	}
	return &v
}

func (s Sheet) host(w week, h Host) hostView {
	v := hostView{Name: name(h.Name), Ticks: plural(h.Ticks, "start", "starts")}
	if h.Ticks > 0 && h.Idle > 0 {
		v.Ticks += ", " + texts.Thousands(h.Idle) + " of them with nothing to do"
	}
	if !h.First.IsZero() {
		v.Since = new(w.stretch(h.First, w.to))
	}
	for _, g := range h.Gaps {
		shown := w.stretch(g.From, g.To)
		shown.Said = "no start for " + duration(g.length().Milliseconds()) + " from " + s.minute(g.From)
		v.Gaps = append(v.Gaps, shown)
	}
	switch n := int64(len(h.Gaps)); n {
	case 0:
		v.Said = "Workers started all the time."
	default:
		worst := slices.MaxFunc(h.Gaps, func(a, b Gap) int { return int(a.length() - b.length()) })
		v.Longest = plural(n, "gap", "gaps") + ": no start for " + duration(worst.length().Milliseconds()) + " from " + s.minute(worst.From)
		if n > 1 {
			v.Longest = plural(n, "gap", "gaps") + ", the longest of " + duration(worst.length().Milliseconds()) + " from " + s.minute(worst.From)
		}
		v.Said = v.Longest
	}
	return v
}

func (g Gap) length() time.Duration { return g.To.Sub(g.From) }

// stretch is where a time is on a strip.
func (w week) stretch(from, to time.Time) stretch {
	x := max(0, from.Sub(w.from).Hours())
	width := max(leastSeen, min(to.Sub(w.from).Hours(), float64(w.hours()))-x)
	return stretch{X: short(min(x, float64(w.hours())-width)), Width: short(width)}
}
