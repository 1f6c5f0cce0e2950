package sheet

import (
	"cmp"
	"slices"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// ranking are the job types that have most of something.
type ranking []rankView

type rankView struct {
	Queue, JobType, ID string
	// Attempts is how many have ended.
	Attempts             string
	First, Second, Third string
	// Bar is how long its bar is, of 100.
	Bar string
}

// maxRanked is how many job types a ranking has.
const maxRanked = 8

// slowest are the job types of which runs took longest, by their 95th percentile.
func slowest(w *monitor.Window) (r ranking) {
	most := int64(0)
	for _, t := range ranked(w, func(t *monitor.TypeSums) int64 {
		if t.Run.P95MS == nil {
			return 0
		}
		return *t.Run.P95MS
	}) {
		ms := *t.Run.P95MS
		most = max(most, ms)
		r = append(r, rankView{
			Queue: t.queue, JobType: name(t.JobType), Attempts: texts.Thousands(t.Run.Count), First: percentile(t.Run.P50MS),
			Second: percentile(t.Run.P95MS), Third: duration(t.Run.MaxMS), Bar: bar(ms, most),
		})
	}
	return r
}

// failing are the job types of which most attempts went wrong, failed jobs before those that were tried again.
func failing(w *monitor.Window) (r ranking) {
	most := int64(0)
	for _, t := range ranked(w, func(t *monitor.TypeSums) int64 { return t.Failed<<20 + t.Errors }) {
		wrong := t.Failed + t.Errors
		most = max(most, wrong)
		r = append(r, rankView{
			Queue: t.queue, JobType: name(t.JobType), Attempts: texts.Thousands(attempts(&t.Counts)), First: texts.Thousands(t.Failed),
			Second: texts.Thousands(t.Errors), Third: share(wrong, attempts(&t.Counts)),
			Bar: bar(wrong, attempts(&t.Counts)),
		})
	}
	return r
}

// link names the queues' parts of the page.
func (r ranking) link(queues []queueView) {
	for n := range r {
		for _, q := range queues {
			if q.Name == r[n].Queue && q.Chart != nil {
				r[n].ID = q.ID
			}
		}
	}
}

type rankedType struct {
	queue string
	*monitor.TypeSums
}

// ranked are the types that have most, without those that have none.
func ranked(w *monitor.Window, by func(*monitor.TypeSums) int64) (types []rankedType) {
	for i := range w.Queues {
		q := &w.Queues[i]
		for j := range q.JobTypes {
			if by(&q.JobTypes[j]) > 0 {
				types = append(types, rankedType{q.Queue, &q.JobTypes[j]})
			}
		}
	}
	slices.SortStableFunc(types, func(a, b rankedType) int { return cmp.Compare(by(b.TypeSums), by(a.TypeSums)) })
	return types[:min(len(types), maxRanked)]
}

// bar is how long the bar of a part is, of 100.
func bar(part, whole int64) string {
	if whole <= 0 || part <= 0 {
		return "0"
	}
	return short(min(100, max(1, 100*float64(part)/float64(whole))))
}
