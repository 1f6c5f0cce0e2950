//go:build linux && amd64

package proof

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// changes are times before a change of clocks: by an hour, half an hour, two hours, a quarter, at night and at midnight, and
// by a day that never was.
var changes = []struct{ zone, before string }{
	{"Europe/Berlin", "2027-02-01"},
	{"America/New_York", "2026-09-01"},
	{"Australia/Lord_Howe", "2026-09-01"},
	{"Africa/Cairo", "2026-03-01"},
	{"America/Sao_Paulo", "2019-01-01"},
	{"Asia/Tehran", "2022-02-01"},
	{"Pacific/Apia", "2011-12-01"},
	{"Asia/Kathmandu", "1985-12-01"},
	{"Antarctica/Troll", "2027-02-01"},
	{"Europe/Berlin", "2026-09-01"},
	{"America/New_York", "2027-02-01"},
	{"Australia/Lord_Howe", "2027-02-01"},
	{"Africa/Cairo", "2026-09-01"},
	{"America/Sao_Paulo", "2018-10-01"},
	{"Asia/Tehran", "2022-08-01"},
	{"Antarctica/Troll", "2026-09-01"},
}

// day is a day on which a zone's clocks change, with schedules and time windows around it.
type day struct {
	c      *clock
	zone   *time.Location
	change time.Time
	plans  []plan
	// windows are those of the types, in minutes of the day.
	windows [][2]int
	jobs    []*windowed
	ticks   []span
	// began is when the schedules began. last is the latest time at which a tick was at work, sure is that of a tick's begin.
	began, last, sure time.Time
	// far are jumps back by more than an hour, after which slots run again.
	far []span
	// backs counts all jumps back.
	backs int
}

// plan is a schedule. Its slots are every so many minutes of the clock, or of the time since 1970, or at a time of the day.
type plan struct {
	name, when, missed string
	every              int
	since1970          bool
	at                 int
}

type span struct{ from, to time.Time }

func (s span) String() string { return s.from.Format(time.DateTime) + s.to.Format("–15:04:05") }

// windowed is a job with a time window.
type windowed struct {
	key    string
	window [2]int
	at     time.Time
	backs  int
}

const daysQueue = "days"

func newDay(c *clock) *day {
	which := changes[(c.r.number-1)%len(changes)]
	zone := dbtest.Must(time.LoadLocation(which.zone))(c.r.t)
	_, change := dbtest.Must(time.ParseInLocation(time.DateOnly, which.before, zone))(c.r.t).ZoneBounds()
	// the clock around the middle of what is skipped or comes twice
	_, before := change.Add(-time.Minute).In(zone).Zone()
	_, after := change.In(zone).Zone()
	middle := (minuteOf(change.Add(-time.Minute).In(zone)) + 1 + (after-before)/60%(24*60)/2) % (24 * 60)
	d := &day{c: c, zone: zone, change: change.UTC()}
	for _, w := range [][2]int{{0, 1}, {-20, 20}, {15, 75}, {-90, -10}} {
		d.windows = append(d.windows, [2]int{(middle + w[0] + 24*60) % (24 * 60), (middle + w[1] + 24*60) % (24 * 60)})
	}
	d.plans = []plan{
		{name: "quarters", when: "*/15 * * * *", missed: "all", every: 15},
		{name: "hours", when: "0 * * * *", missed: "all", every: 60},
		{name: "tens", when: "@every 10m", missed: "all", every: 10, since1970: true},
		{name: "daily", when: fmt.Sprintf("%d %d * * *", middle%60, middle/60), missed: "all", at: middle},
		{name: "latest", when: "*/5 * * * *", missed: "latest", every: 5},
		{name: "skip", when: "*/20 * * * *", missed: "skip", every: 20},
	}
	return d
}

func minuteOf(t time.Time) int { return t.Hour()*60 + t.Minute() }

// begin adds schedules and windows to the config.
func (d *day) begin() {
	r := d.c.r
	var f strings.Builder
	handler := fmt.Sprintf("handler: {exec: [%q, %q]}", r.bin.handler, r.ledger)
	fmt.Fprintf(&f, "  - name: %s\n    job_types:\n      - {name: slot, %s}\n", daysQueue, handler)
	for i, w := range d.windows {
		fmt.Fprintf(&f, "      - {name: window%d, time_windows: [\"%02d:%02d-%02d:%02d\"], %s}\n", i, w[0]/60, w[0]%60, w[1]/60, w[1]%60, handler)
	}
	fmt.Fprintf(&f, "timezone: %s\nschedules:\n", d.zone)
	for _, p := range d.plans {
		fmt.Fprintf(&f, "  - {name: %s, when: %q, queue: %s, type: slot, data: '%s', missed: %s}\n", p.name, p.when, daysQueue, done, p.missed)
	}
	r.extend("%s", &f)
	d.began = d.c.now()
	d.last = d.began
}

// done is the data of a job whose handler succeeds.
const done = `{"steps":[{"do":"done"}]}`

// step puts the clock somewhere else, adds jobs with windows, and lets one or two ticks work.
func (d *day) step(rng *rand.Rand) {
	c, r := d.c, d.c.r
	by := time.Duration([]int{1, 2, 5, 10, 15, 20, 30, 45, 60}[rng.IntN(9)]) * time.Minute
	switch p := rng.IntN(10); {
	case p == 0:
		by = -time.Duration(1+rng.IntN(50)) * time.Minute
	case p == 1 && len(d.far) < 2:
		by = -time.Duration(62+rng.IntN(58)) * time.Minute
	}
	if by < 0 {
		d.backs++
		if to := c.now().Add(by); d.last.Sub(to) > 50*time.Minute {
			d.far = append(d.far, span{to, d.last})
		}
	}
	c.set(c.by + by)
	if c.host != nil {
		c.host.Set(c.by + []time.Duration{0, -2 * time.Hour, 2 * time.Hour}[rng.IntN(3)])
	}
	r.inject("%s: the database's clock goes by %s to %s", d.zone, by, c.now().In(d.zone).Format(time.RFC3339))
	for i, w := range d.windows {
		if rng.IntN(2) == 0 {
			j := &windowed{key: fmt.Sprintf("%d-%d", len(r.faults), i), window: w, at: c.now(), backs: d.backs}
			dbtest.Must(r.run("enqueue", daysQueue, fmt.Sprintf("window%d", i), "--key", j.key, "--data", done))(r.t)
			d.jobs = append(d.jobs, j)
		}
	}
	tick := span{from: c.now()}
	var ticks sync.WaitGroup
	for range 1 + rng.IntN(2) {
		t := r.tick("work", "--run-for", "3s")
		ticks.Go(func() { <-t.ended })
	}
	ticks.Wait()
	tick.to = c.now()
	d.judgeWaiting(tick)
	d.ticks = append(d.ticks, tick)
	d.last, d.sure = later(d.last, tick.to), later(d.sure, tick.from)
}

// judgeWaiting finds jobs that still wait although their windows were open all through a tick. If the clock was put back after
// such a job was added, it may wait for a later opening.
func (d *day) judgeWaiting(tick span) {
	for _, j := range d.jobs {
		if j.backs < d.backs || !d.inside(j.window, tick.from) || !d.inside(j.window, tick.to) {
			continue
		}
		var state string
		dbtest.OK(d.c.r.t, d.c.r.db.QueryRow("SELECT state FROM proof_"+daysQueue+" WHERE job_key = ?", j.key).Scan(&state))
		if state != "final" {
			d.c.r.found = append(d.c.r.found, fmt.Sprintf("%s: job %s is %s although its window %v was open from %s to %s", d.zone, j.key, state, j.window, tick.from, tick.to))
		}
	}
}

// inside says whether the clock shows a time in a window. The closing minute is outside.
func (d *day) inside(window [2]int, t time.Time) bool {
	is := minuteOf(t.In(d.zone))
	if window[0] < window[1] {
		return window[0] <= is && is < window[1]
	}
	return window[0] <= is || is < window[1]
}

// judgeStarts finds jobs that began outside of their windows, and those that are missing.
func (d *day) judgeStarts() (bad []string) {
	r, starts := d.c.r, 0
	err := r.each("SELECT at, job_type FROM proof_activity WHERE state = 'starting' AND job_type LIKE 'window%'", func(rows *sql.Rows) error {
		var at, jobType string
		if err := rows.Scan(&at, &jobType); err != nil {
			return err
		}
		t, err := time.Parse(stamp6, at)
		if w := d.windows[int(jobType[len(jobType)-1]-'0')]; err == nil && !d.inside(w, t) {
			bad = append(bad, fmt.Sprintf("%s: started at %s, outside of its window %v", d.zone, t.In(d.zone), w))
		}
		starts++
		return err
	})
	dbtest.OK(r.t, err)
	for _, j := range d.jobs {
		n := 0
		dbtest.OK(r.t, r.db.QueryRow("SELECT COUNT(*) FROM proof_"+daysQueue+" WHERE job_key = ?", j.key).Scan(&n))
		if n != 1 {
			bad = append(bad, fmt.Sprintf("%s: job %s is there %d times", d.zone, j.key, n))
		}
	}
	r.more += len(d.jobs)
	r.notes = append(r.notes, fmt.Sprintf("%s: %d starts within windows", d.zone, starts))
	return bad
}

// slots are a plan's slots in a span, without its begin.
func (d *day) slots(p plan, s span) (slots []time.Time) {
	shown := func(t time.Time) time.Time { // the clock as if it were in UTC
		_, offset := t.In(d.zone).Zone()
		return t.Add(time.Duration(offset) * time.Second)
	}
	if p.every == 0 {
		first := shown(s.from).Truncate(24*time.Hour).AddDate(0, 0, -2)
		for date := first; date.Before(shown(s.to).AddDate(0, 0, 2)); date = date.AddDate(0, 0, 1) {
			at := date.Add(time.Duration(p.at) * time.Minute)
			// The first moment at which the clock shows it, or the first after the gap.
			slot := at.Add(-26 * time.Hour).Truncate(time.Minute)
			for shown(slot).Before(at) {
				slot = slot.Add(time.Minute)
			}
			if slot.After(s.from) && !slot.After(s.to) && !slices.Contains(slots, slot) {
				slots = append(slots, slot)
			}
		}
		return slots
	}
	for t := s.from.Truncate(time.Minute).Add(time.Minute); !t.After(s.to); t = t.Add(time.Minute) {
		if p.since1970 && t.Unix()/60%int64(p.every) == 0 || !p.since1970 && minuteOf(shown(t))%p.every == 0 {
			slots = append(slots, t)
		}
	}
	return slots
}

// judgeSlots compares the jobs of schedules with the slots that there were.
func (d *day) judgeSlots() (bad []string) {
	r, got := d.c.r, map[string]int{}
	err := r.each("SELECT job_key FROM proof_"+daysQueue+" WHERE job_type = 'slot'", func(rows *sql.Rows) error {
		var key string
		err := rows.Scan(&key)
		got[key]++
		return err
	})
	dbtest.OK(r.t, err)
	total := 0
	for _, p := range d.plans {
		begin := d.began.Add(-2 * time.Minute) // a new schedule looks back a minute
		known := d.slots(p, span{begin.Add(-5 * time.Hour), d.last})
		must := map[time.Time]bool{}
		if p.missed == "all" {
			for _, s := range d.slots(p, span{d.began, d.sure}) {
				must[s] = true
			}
		}
		seen := d.began
		for _, t := range d.ticks {
			if p.missed != "all" && t.from.After(seen) {
				if due := d.slots(p, span{seen, t.from}); len(due) > 0 && len(d.slots(p, t)) == 0 {
					if latest := due[len(due)-1]; p.missed == "latest" || t.to.Sub(latest) < 5*time.Minute {
						must[latest] = true
					}
				}
			}
			seen = later(seen, t.to)
		}
		for _, slot := range known {
			key := p.name + "@" + slot.Format(time.RFC3339)
			n, most := got[key], 0
			if slot.After(begin) {
				most = 1
			}
			delete(got, key)
			for _, f := range d.far {
				if slot.After(f.from) && !slot.After(f.to) {
					most++
				}
			}
			if total += n; n > most || n == 0 && must[slot] {
				bad = append(bad, fmt.Sprintf("%s: %s has %d jobs (missed: %s; jumps back by more than an hour: %v)", d.zone, key, n, p.missed, d.far))
			}
			if p.missed == "skip" && n > 0 && !slices.ContainsFunc(d.ticks, func(t span) bool { return !slot.After(t.to) && t.from.Sub(slot) <= 5*time.Minute }) {
				bad = append(bad, fmt.Sprintf("%s: %s came later than 5 minutes", d.zone, key))
			}
		}
	}
	for key := range got {
		bad = append(bad, fmt.Sprintf("%s: %s is no slot", d.zone, key))
	}
	r.more += total
	r.notes = append(r.notes, fmt.Sprintf("%s: %d slots", d.zone, total))
	if len(bad) > 0 {
		bad[0] += fmt.Sprint("\nticks: ", d.ticks)
	}
	return bad
}
