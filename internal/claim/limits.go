package claim

// Scope names a limit: Queue, Rate, or a throttle group.
type Scope string

// None is no limit. Queue is the weight of all jobs, Rate is how many start in a period. Slot is a worker's.
const (
	None  Scope = ""
	Queue Scope = "queue"
	Rate  Scope = "rate"
	Slot  Scope = "slot"
)

// Limit is what is known of one scope.
type Limit struct {
	// Max is the weight that may be in use at once; for the rate, the number of starts. Used is what is in use.
	Max, Used int
	// Whole is the queue's limit, of which Max is a shard's share; without shards, both are the same.
	Whole int
	// FirstUses is what the first job takes that waits for the limit; if it isn't 0, it blocks those behind. oursWaits
	// says that one of ours waits.
	FirstUses int
	oursWaits bool
}

// Limits are a queue's limits. A scope that isn't there has no limit.
type Limits map[Scope]*Limit

// OursWait says that a job of ours waits for the limit, so that no later one of ours starts there.
func (l Limits) OursWait(s Scope) bool { return l[s] != nil && l[s].oursWaits }

// scopes are the limits that a job uses, in the order in which it waits for them.
func (j Job) scopes() []Scope {
	if j.Weight == 0 {
		return []Scope{Rate}
	}
	return []Scope{j.Group, Queue, Rate}
}

// firstLacking returns the first scope that has no room for the job, or for which an earlier job waits.
func (l Limits) firstLacking(j Job) Scope {
	for _, s := range j.scopes() {
		if limit := l[s]; limit != nil && (limit.FirstUses > 0 || !limit.HasRoom(j.uses(s))) {
			return s
		}
	}
	return None
}

// uses is what the job takes of a scope.
func (j Job) uses(s Scope) int {
	if s == Rate {
		return 1
	}
	return j.Weight
}

// noteWaiter notes a job that waits for room, and says whether it is the first.
func (l *Limit) noteWaiter(uses int) (isFirst bool) {
	if isFirst = l.FirstUses == 0; isFirst {
		l.FirstUses = uses
	}
	return isFirst
}

// HasRoom says whether a weight fits. One that is heavier than the whole limit needs all of it.
func (l *Limit) HasRoom(weight int) bool { return min(weight, l.Whole) <= l.Max-max(l.Used, 0) }

func (l Limits) use(j Job) {
	for _, s := range j.scopes() {
		if limit := l[s]; limit != nil {
			limit.Used += j.uses(s)
		}
	}
}
