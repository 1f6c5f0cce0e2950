package cmd

import (
	"strconv"
	"time"

	"github.com/hipq/hipq/monitor"
)

// hostsMax is how many hosts are told of.
const hostsMax = 20

// printTicks says how many ticks there were in a window on each host, and the longest time without any.
func (a *app) printTicks(i *instance, w monitor.Window) error {
	if w.Ticks.Count == 0 {
		return nil
	}
	t := newTable(a.out, "HOST", "TICKS IN "+w.Name, "IDLE", "LONGEST GAP", i.zoned("FROM"), i.zoned("LAST TICK")).
		narrowing([]string{"HOST"}, []string{"FROM", "IDLE"})
	row := func(host string, s monitor.TickSums) error {
		gap, from := "–", "–"
		if s.GapMS != nil {
			gap, from = (time.Duration(*s.GapMS) * time.Millisecond).Round(time.Second).String(), i.localCell(*s.GapFrom)
		}
		return t.row(host, strconv.FormatInt(s.Count, 10), strconv.FormatInt(s.Idle, 10), gap, from, i.localCell(*s.Last))
	}
	hosts := w.Ticks.Hosts[:min(len(w.Ticks.Hosts), hostsMax)]
	for _, h := range hosts {
		if err := row(h.Host, h.TickSums); err != nil {
			return err
		}
	}
	if len(w.Ticks.Hosts) > 1 {
		if err := row("all", w.Ticks.TickSums); err != nil {
			return err
		}
	}
	if err := t.end(); err != nil {
		return err
	}
	if more := len(w.Ticks.Hosts) - len(hosts); more > 0 {
		a.out.line("… and %d more hosts", more)
	}
	return nil
}
