package sim

import (
	"container/heap"
	"time"
)

// clock has what happens next.
type clock struct {
	now  time.Duration
	next events
	seen int
}

type event struct {
	at     time.Duration
	number int // of two at the same time the first that was planned comes first
	do     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// after plans what happens when so much time has gone by.
func (c *clock) after(d time.Duration, do func()) {
	c.seen++
	heap.Push(&c.next, event{c.now + d, c.seen, do})
}

// step lets the next thing happen.
func (c *clock) step() bool {
	if len(c.next) == 0 {
		return false
	}
	e := heap.Pop(&c.next).(event)
	c.now = e.at
	e.do()
	return true
}

// row is a row that one transaction at a time holds; the others wait in the order in which they came.
type row struct {
	held    bool
	waiting []func()
}

func (r *row) lock(then func()) {
	if r.held {
		r.waiting = append(r.waiting, then)
		return
	}
	r.held = true
	then()
}

func (r *row) unlock() {
	if len(r.waiting) == 0 {
		r.held = false
		return
	}
	then := r.waiting[0]
	r.waiting = r.waiting[1:]
	then()
}

// node is a server: until when each of its cores is busy.
type node []time.Duration

// work keeps a core of a shard's node busy, the one that is free first, and says how long until it is done.
func (s *sim) work(shard int, d time.Duration) time.Duration {
	n := s.nodes[shard%len(s.nodes)]
	first := 0
	for i := range n {
		if n[i] < n[first] {
			first = i
		}
	}
	n[first] = max(n[first], s.now) + d
	s.worked += d
	return n[first] - s.now
}
