package dbtest

import (
	"strings"
	"testing"
	"time"
)

// TestIdle plays moments, 50 ms apart, and says what must be found.
func TestIdle(t *testing.T) {
	zero := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	limited := Queue{Name: "mail", Limit: 2, Types: map[string]int{"a": 0, "b": 1}}
	grouped := Queue{Name: "mail", By: "data.g", Groups: map[string]int{"x": 2, "*": 1}, Types: map[string]int{"a": 0, "b": 1}}
	rated := Queue{Name: "mail", Rate: 1, Per: 10 * time.Second, Types: map[string]int{"a": 0}}
	due := func(id int64, typ, group string, weight int) Job {
		return Job{ID: id, Queue: "mail", Type: typ, Group: group, Weight: weight, Status: "available", Since: zero.Add(-time.Minute)}
	}
	is := func(status string, j Job) Job {
		j.Status = status
		return j
	}
	hand := func(id string, slots int, types ...string) Hand {
		return Hand{ID: id, Slots: slots, Types: types, Began: zero.Add(-time.Minute), Until: zero.Add(time.Minute)}
	}
	late := due(3, "a", "", 1)
	late.Since = zero
	a, b, heavy, weightless := due(1, "a", "", 1), due(2, "b", "", 1), due(2, "a", "", 2), due(3, "a", "", 0)
	x, y := due(4, "a", "x", 1), due(5, "a", "y", 1)
	one := []Hand{hand("one", 4)}
	for _, c := range []struct {
		name  string
		queue Queue
		jobs  []Job
		hands []Hand
		// for is how long it lasts; then follows after, if it is set.
		lasts time.Duration
		// change changes each moment.
		change func(at time.Duration, m *Moment)
		says   string
	}{
		{"nothing is due", limited, []Job{is("running", a)}, one, 3 * time.Second, nil, ""},
		{"a job is due, for a moment", limited, []Job{a}, one, 300 * time.Millisecond, nil, ""},
		{"a job is due, for long", limited, []Job{a}, one, time.Second, nil, "job 1 of type a"},
		{"with a poll of another process, for a moment", limited, []Job{a}, []Hand{hand("one", 1), hand("two", 1)}, 1300 * time.Millisecond, nil, ""},
		{"with a poll of another process, for long", limited, []Job{a}, []Hand{hand("one", 1), hand("two", 1)}, 2 * time.Second, nil, "job 1"},
		{"jobs start", limited, []Job{a}, one, time.Second, func(at time.Duration, m *Moment) {
			m.Starts["mail"] = []time.Time{zero.Add(at.Truncate(200 * time.Millisecond))}
		}, ""},
		{"it was added just now", limited, []Job{late}, one, time.Second, nil, ""},
		{"nobody runs its type", limited, []Job{a}, []Hand{hand("one", 4, "b")}, time.Second, nil, ""},
		{"no slot on the host", limited, []Job{is("running", b), a}, []Hand{hand("one", 1)}, time.Second, nil, ""},
		{"no slot in its lane", limited, []Job{is("running", due(9, "b", "", 0)), b}, one, time.Second, nil, ""},
		{"behind one that has no slot in its lane", limited, []Job{is("running", due(9, "b", "", 0)), b, late, due(7, "a", "", 1)}, one, time.Second, nil, "job 7"},
		{"the limit is full", limited, []Job{is("running", heavy), a}, one, time.Second, nil, ""},
		{"an answer is awaited", limited, []Job{is("awaiting", heavy), a}, one, 3 * time.Second, nil, ""},
		{"an answer is awaited that makes no room", Queue{Name: "mail", Types: limited.Types}, []Job{is("awaiting", heavy), a}, one, time.Second, nil, "job 1"},
		{"a weightless job needs no room", limited, []Job{is("running", heavy), a, weightless}, one, time.Second, nil, "job 3"},
		{"a heavy one waits, and nothing overtakes it", limited, []Job{is("running", a), heavy, due(7, "a", "", 1)}, one, time.Second, nil, ""},
		{"a heavier one than the limit runs alone", limited, []Job{due(8, "a", "", 3)}, one, time.Second, nil, "job 8"},
		{"a decision takes no room", limited, []Job{is("deciding", heavy), a}, one, time.Second, nil, "job 1"},
		{"a group is full", grouped, []Job{is("running", y), y}, one, time.Second, nil, ""},
		{"another group has room", grouped, []Job{is("running", y), y, x}, one, time.Second, nil, "job 4"},
		{"without a group", grouped, []Job{is("running", y), y, a}, one, time.Second, nil, "job 1"},
		{"the rate is used up", rated, []Job{a}, one, time.Second, func(_ time.Duration, m *Moment) {
			m.Starts["mail"] = []time.Time{zero.Add(-9 * time.Second)}
		}, ""},
		{"the rate has room", rated, []Job{a}, one, time.Second, func(_ time.Duration, m *Moment) {
			m.Starts["mail"] = []time.Time{zero.Add(-11 * time.Second)}
		}, "job 1"},
		{"the queue is paused", limited, []Job{a}, one, time.Second, func(_ time.Duration, m *Moment) { m.Paused = map[string]bool{"mail": true} }, ""},
		{"the worker's time is over", limited, []Job{a}, []Hand{{ID: "one", Slots: 4, Until: zero}}, time.Second, nil, ""},
		{"the machine is busy", limited, []Job{a}, one, time.Second, func(at time.Duration, m *Moment) { m.At = zero.Add(at / 300e6 * 300e6) }, ""},
		{"processes wait for the processors", limited, []Job{a}, one, time.Second, func(_ time.Duration, m *Moment) { m.Waiting = 7 }, ""},
		{"a worker ends although a group will have room", grouped, []Job{is("running", y), y}, one, 100 * time.Millisecond, func(at time.Duration, m *Moment) {
			if at > 0 {
				m.Hands, m.Ended = nil, one
			}
		}, "has ended, although job 5 of mail waits for room in the group y"},
		{"a worker ends and leaves that to another", grouped, []Job{is("running", y), y}, one, 100 * time.Millisecond, func(at time.Duration, m *Moment) {
			if at > 0 {
				m.Hands, m.Ended = []Hand{hand("two", 4)}, one
			}
		}, ""},
		{"a worker ends because only an answer gives room", grouped, []Job{is("awaiting", y), y}, one, 100 * time.Millisecond, func(at time.Duration, m *Moment) {
			if at > 0 {
				m.Hands, m.Ended = nil, one
			}
		}, ""},
		{"a worker ends although it had a slot", limited, []Job{a}, one, 100 * time.Millisecond, func(at time.Duration, m *Moment) {
			if at > 0 {
				m.Hands, m.Ended = nil, one
			}
		}, "has ended, although it had a slot for job 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := Idle{Queues: []Queue{c.queue}, Most: 300 * time.Millisecond}
			said := ""
			for at := time.Duration(0); at <= c.lasts; at += 50 * time.Millisecond {
				m := Moment{At: zero.Add(at), Jobs: c.jobs, Hands: c.hands, Starts: map[string][]time.Time{}, Workers: len(c.hands)}
				if c.change != nil {
					c.change(at, &m)
				}
				said += strings.Join(w.See(m), "\n")
			}
			Ensure(t, (said == "") == (c.says == "") && strings.Contains(said, c.says), "it says %q, want %q", said, c.says)
		})
	}
}
