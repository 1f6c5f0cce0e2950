//go:build linux && amd64

package proof

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/internal/dbtest"
)

func init() {
	kinds = append(kinds, kind{
		name: "clocks", title: "Clocks of host and database wrong by up to 2 h, put back and forth, smeared; steps of up to 2 h through days on which the clocks of 9 zones change",
		must: "started outside a window, slot doubled or missed, lost, doubled", rounds: len(changes),
		turns: []engineTurns{{"mariadb", 1}, {"sqlite", 1}}, round: clocks,
	})
}

// clock is the database's. With SQLite it is the host's.
type clock struct {
	r     *round
	shift func(time.Duration)
	by    time.Duration
	// host is that of the commands, if the database has another.
	host *tracedClock
}

func (c *clock) now() time.Time { return time.Now().UTC().Add(c.by) }

func (c *clock) set(by time.Duration) {
	if by > c.by {
		var now unix.Timespec
		dbtest.OK(c.r.t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &now))
		c.r.mu.Lock()
		c.r.jumps = append(c.r.jumps, now.Nano())
		c.r.mu.Unlock()
	}
	c.by = by
	c.shift(by)
}

// clocks goes step by step through a change of a zone's clocks, and then lets the clocks jump while everything is at work.
func clocks(r *round) {
	var host tracedClock
	c := &clock{r: r, shift: host.Set}
	if r.driver == "mysql" {
		r.source, c.shift = dbtest.ShiftedMySQL(r.t)
		c.host = &host
	} else {
		r.source += ".shifted"
	}
	r.traced(traceOptions{Clock: &host})
	r.settings.rate = 0 // when a clock goes back, its seconds have more starts
	d := newDay(c)
	c.set(time.Until(d.change.Add(-113 * time.Minute)))
	r.begin()
	d.begin()
	rng := r.random(10)
	for n := 0; n < 12 || c.now().Before(d.change.Add(2*time.Hour)); n++ {
		d.step(rng)
	}
	r.found = append(r.found, d.judgeSlots()...)
	base := c.by
	r.live(workload{ticks: 3, backlog: 40}, 2*time.Minute, func(context.Context) {
		for n := 0; n < 10 && time.Now().Before(r.until); n++ {
			time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
			c.disturb(rng, base)
		}
		host.Set(base + 3*time.Hour) // nothing waits for a time that isn't there yet
		c.set(base + 3*time.Hour)
		r.ahead = c.by
	})
	r.found = append(r.found, d.judgeStarts()...)
}

// disturb puts a clock wrong: by up to two hours, by a second as a leap second does, or a little again and again.
func (c *clock) disturb(rng *rand.Rand, base time.Duration) {
	by := base + time.Duration(rng.Int64N(int64(4*time.Hour))) - 2*time.Hour
	switch p := rng.IntN(10); {
	case p < 3 && c.host != nil:
		c.r.inject("the host's clock is %s wrong", (by - base).Round(time.Second))
		c.host.Set(by)
	case p < 5:
		by = c.by + time.Duration(1-2*rng.IntN(2))*time.Second
		c.r.inject("the database's clock jumps a leap second to %s", (by - base).Round(time.Second))
		c.set(by)
	case p < 7:
		step := time.Duration(1+rng.IntN(3)) * time.Millisecond * time.Duration(1-2*rng.IntN(2))
		c.r.inject("the database's clock is smeared by %s each 10 ms", step)
		for range 100 {
			c.by += step // too little to end a lock
			c.shift(c.by)
			time.Sleep(10 * time.Millisecond)
		}
	default:
		c.r.inject("the database's clock jumps from %s to %s", (c.by - base).Round(time.Second), (by - base).Round(time.Second))
		c.set(by)
	}
}
