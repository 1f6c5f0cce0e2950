package sim

import (
	"slices"
	"time"
)

// worker is a worker as queue/worker has it: it looks once a second, does rounds while these find something, and tries no more
// where one has found no room until it looks again, or has something to settle.
type worker struct {
	*sim
	home, turn int
	free       int            // slots
	more       map[int]bool   // the shards in which a round may find something to start
	out        map[int]bool   // those in which a round is out
	ended      map[int][]*job // what is to be settled, by shard
}

// look looks for due jobs: in the home shard, and in some others in turn.
func (w *worker) look() {
	w.after(w.LookEach, w.look)
	w.after(w.work(w.home, w.Look)+w.Commit, func() {
		w.see(w.home)
		for range min(w.Help, w.Shards-1) {
			w.turn = (w.turn + 1) % w.Shards
			w.see(w.turn)
		}
		w.dispatch()
	})
}

func (w *worker) see(shard int) {
	x := w.shards[shard]
	if len(x.waiting) > 0 && (w.Blind || w.fits(x, x.waiting[0]) || w.mayAsk(x)) {
		w.more[shard] = true
	}
}

// dispatch sends out the rounds that there is a use for: those that settle something, then one in the home shard, and in others
// when there is nothing to start at home.
func (w *worker) dispatch() {
	for _, shard := range keys(w.ended) {
		w.round(shard)
	}
	if w.more[w.home] {
		w.round(w.home)
		return
	}
	for _, shard := range keys(w.more) {
		w.round(shard)
	}
}

// keys are the shards of a map, in order: for a run is to be the same each time.
func keys[T any](m map[int]T) (list []int) {
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// round is a round in a shard, under its row: it settles what has ended, and starts what there is room and slots for.
func (w *worker) round(number int) {
	slots := 0
	if w.more[number] {
		slots = w.free
	}
	ended := w.ended[number]
	if w.out[number] || slots+len(ended) == 0 {
		return
	}
	delete(w.ended, number)
	w.out[number] = true
	w.free -= slots // for the jobs that it may start; what it settles leaves slots for the next
	x, work := w.shards[number], w.Round
	lock, unlock := func(then func()) { then() }, func() {}
	if w.takesTurns() {
		lock, unlock, work = x.lock, x.unlock, work+w.Turn
	}
	lock(func() {
		w.rounds++
		work += time.Duration(len(ended)+min(slots+len(ended), len(x.waiting))) * w.PerJob
		w.after(w.work(number, work)+w.Commit, func() {
			for _, j := range ended {
				w.end(x, j)
			}
			slots += len(ended)
			for slots > 0 && len(x.waiting) > 0 && w.fits(x, x.waiting[0]) {
				w.begin(number, w.start(x))
				slots--
			}
			unlock()
			w.land(number, slots)
		})
	})
}

// begin runs a job.
func (w *worker) begin(shard int, j *job) {
	w.after(time.Duration(w.ExpFloat64()*float64(w.Service)), func() {
		w.ended[shard] = append(w.ended[shard], j)
		w.dispatch()
	})
}

// land takes note of what a round has left over.
func (w *worker) land(number, slots int) {
	x := w.shards[number]
	w.free += slots
	delete(w.out, number)
	if slots > 0 || len(x.waiting) == 0 {
		delete(w.more, number)
	} else {
		w.more[number] = true
	}
	if slots > 0 && len(x.waiting) > 0 && w.mayAsk(x) {
		w.ask(number, func() { w.again(number) })
		w.after(w.AskEach, func() { w.again(number) })
	}
	w.dispatch()
}

// again tries a shard once more.
func (w *worker) again(shard int) {
	w.see(shard)
	w.dispatch()
}
