// Package lending divides a limit among the shards of a queue, and lends what one of them doesn't use to others. It knows neither
// SQL nor a clock: who asks has locked all shards' rows, and writes down what it says.
package lending

// Part is what one shard has of a limit that is divided among shards.
type Part struct {
	Capacity int   // what it holds; the sum over all parts is the limit
	Target   int   // what it is to hold: nothing is started beyond the lesser of both
	Used     int   // what counts against it now
	Demand   int   // what it would use besides, at once; 0: it asks for nothing
	First    int   // the weight of the first job that waits there; 0: none
	Since    int64 // since when that one waits, in any unit: who has waited longest comes first; then the part's number
}

// Allows says whether a job of this weight may start in a part: it fits into the lesser of capacity and target, or it is heavier
// than the whole limit, which the part has all of, and nothing else runs.
func (p Part) Allows(limit, weight int) bool {
	room, used := min(p.Capacity, p.Target), max(p.Used, 0)
	if weight > limit {
		return used == 0 && room >= limit
	}
	return weight <= room-used
}

// Balance gives each part its target and moves what is free towards it. The sum of the targets, and that of the capacities, is
// the limit, before and after (a table in which it is not, for the limit has changed or a hand has written there, is divided anew:
// what is used first). It may be repeated: what it has done, it leaves.
//
// A limit that has changed holds from the first Balance on. Where parts use more than it, nothing starts anywhere before they use
// less.
func Balance(limit int, parts []Part) {
	if len(parts) == 0 {
		return
	}
	t := newTable(limit, parts)
	if !t.isWhole() {
		t.divide()
	}
	t.aim()
	t.move()
}
