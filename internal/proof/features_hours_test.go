package proof

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
)

// monitor moves the new entries of the activity into a past hour, and lets hipq count that hour.
func (p *play) monitor(t *rapid.T) {
	p.T = t
	p.hours++
	days := pick(t, "days ago", 0, 20)
	hour := time.Now().UTC().Add(-time.Duration(days*24+3+p.hours) * time.Hour).Truncate(time.Hour)
	p.Logf("the activity since the last monitor is now that of %s", hour)
	n := p.change("UPDATE shop_activity SET at = ? WHERE id > ?", hour.Add(30*time.Minute).Format(stamp6), p.monitored)
	dbtest.SkipIf(t, n == 0, "no activity")
	p.monitored = int64(p.number("SELECT MAX(id) FROM shop_activity"))
	if days > 0 {
		p.old += n
	}
	want := p.tally
	p.tally = map[string][5]int{}
	for range 2 { // the second time changes nothing
		p.hipq(0, "", "monitor", "--at", hour.Format(time.RFC3339))
		got := map[string][5]int{}
		p.each("SELECT queue, job_type, added, started, finished, errors, failed FROM shop_metrics"+
			" WHERE hour = ? AND queue <> 'NONE' AND added + started + finished + errors + failed > 0", func(rows *sql.Rows) error {
			var queue, kind string
			var n [5]int
			err := rows.Scan(&queue, &kind, &n[0], &n[1], &n[2], &n[3], &n[4])
			got[queue+" "+kind] = n
			return err
		}, hour.Format(stamp6))
		dbtest.Require(t, fmt.Sprint(got) == fmt.Sprint(want), "the metrics of %s are %v, want %v", hour, got, want)
	}
}

const stamp6 = "2006-01-02 15:04:05.000000"

func (p *play) change(statement string, args ...any) int {
	p.Helper()
	return int(dbtest.Must(dbtest.Must(p.db.Exec(statement, args...))(p.T).RowsAffected())(p.T))
}

func (p *play) number(query string) (n int) {
	p.Helper()
	dbtest.OK(p.T, p.db.QueryRow(query).Scan(&n))
	return n
}

// purge makes some final jobs old, and deletes them.
func (p *play) purge(t *rapid.T) {
	p.T = t
	q, days := p.queue(), pick(t, "days old", 10, 20, 100)
	p.Logf("the final jobs of %s are now %d days old", q.name, days)
	at := time.Now().UTC().AddDate(0, 0, -days)
	p.change("UPDATE shop_"+q.name+" SET update_time = ?, scheduled_run_time = ? WHERE state = 'final'", at.Format(stamp6), at.Format(stamp6))
	want := map[string]int{"activity": p.old}
	p.old = 0
	for _, j := range q.jobs {
		if j.final() {
			j.at = at.Format(time.DateTime)
		}
		if !j.gone && (j.status == "finished" && days > 14 || (j.status == "failed" || j.status == "closed") && days > 90) {
			j.gone = true
			want[map[bool]string{true: "finished", false: "failed"}[j.status == "finished"]]++
		}
	}
	sum := 0
	for _, n := range want {
		sum += n
	}
	p.hipq(btoi(sum == 0), "", "purge", "--dry-run")
	for _, o := range p.hipq(0, "", "purge") {
		want[o["what"].(string)] -= int(o["count"].(float64))
	}
	for what, n := range want {
		dbtest.Require(t, n == 0, "%s: %d more should be purged", what, n)
	}
	p.sync(nil, q)
}

// every is the distance of the slots of all schedules.
const every = 10 * time.Minute

// mSchedule is a schedule of the config.
type mSchedule struct {
	missed string
	paused bool
	until  time.Time // slots up to here are done
	got    map[string]bool
}

// schedule pauses, resumes or runs a schedule, or lets slots pass without a worker.
func (p *play) schedule(t *rapid.T) {
	p.T = t
	name := pick(t, "schedule", "all", "latest", "skip")
	s := p.schedules[name]
	switch do := pick(t, "do", "miss", "pause", "resume", "run"); do {
	case "miss":
		n := pick(t, "slots", 1, 2, 30, 120)
		dbtest.SkipIf(t, p.ran || s.paused, "a slot would come twice")
		s.until = p.start.Add(-time.Duration(n) * every)
		p.Logf("no worker ran while %d slots of %s passed", n, name)
		p.change("UPDATE shop_schedules SET seen_until = ?, next_slot = ? WHERE name = ?", s.until.Format(stamp6),
			slots(s.until, s.until.Add(every))[0].Format(stamp6), name)
	case "run":
		q := p.queues[0]
		out := p.hipq(0, "", "schedules", "run", name)
		p.same(out, map[string]any{"schedule": name, "queue": q.name, "duplicate": false})
		p.byNow = true
		p.sync(nil, q)
		p.byNow = false
	default:
		word := "already"
		if paused := do == "pause"; s.paused != paused {
			word = do + "d"
			s.paused = paused
			if !paused {
				s.until = time.Now().UTC()
			}
		}
		p.same(p.hipq(0, "", "schedules", do, name), map[string]any{"schedule": name, "paused": s.paused, "result": word})
	}
}

// due are the slots for which a tick at this time enqueues a job.
func (s *mSchedule) due(now time.Time) []time.Time {
	list := slots(s.until, now)
	if n := len(list); s.paused || n == 0 {
		return nil
	} else if s.missed == "all" {
		return list[max(0, n-100):]
	} else if s.missed == "latest" || now.Sub(list[n-1]) <= 5*time.Minute {
		return list[n-1:]
	}
	return nil
}

// slot is the job of a schedule, which the model adds when it is seen.
func (p *play) slot(q *mQueue, r row) *mJob {
	name, at, _ := strings.Cut(r.key, "@")
	s := p.schedules[name]
	if s == nil || q != p.queues[0] || r.typ != "later" {
		return nil
	}
	slot := dbtest.Must(time.Parse(time.RFC3339, at))(p.T)
	if !p.byNow {
		ok := false
		for _, d := range s.due(time.Now().UTC()) {
			ok = ok || d.Equal(slot)
		}
		dbtest.Require(p.T, ok, "a job of schedule %s for slot %s, want %v", name, at, s.due(time.Now().UTC()))
		s.got[at] = true
	}
	t := q.types[1]
	j := &mJob{t: t, key: r.key, mSpec: mSpec{data: slotData, do: "d", say: "z", priority: t.priority, factor: t.factor, timeout: t.timeout}}
	j, word := q.add(j, "ignore")
	dbtest.Require(p.T, word == "added", "the job of slot %s was a %s", at, word)
	return j
}

// slotsDone checks that a tick, begun at this time, enqueued the jobs of all slots. One that may start only some jobs may end
// before.
func (p *play) slotsDone(begun time.Time, all bool) {
	p.ran = true
	for name, s := range p.schedules {
		left := slices.DeleteFunc(s.due(begun), func(d time.Time) bool { return s.got[d.Format(time.RFC3339)] })
		dbtest.Require(p.T, !all || len(left) == 0, "schedule %s got no jobs for slots %v", name, left)
		for at := range s.got {
			s.until = later(s.until, dbtest.Must(time.Parse(time.RFC3339, at))(p.T))
		}
		if len(left) == 0 {
			s.until = later(s.until, begun)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// slots are the slots after one time, up to another.
func slots(after, upTo time.Time) (list []time.Time) {
	for s := after.Truncate(every).Add(every); !s.After(upTo); s = s.Add(every) {
		list = append(list, s)
	}
	return list
}
