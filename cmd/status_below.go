package cmd

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

type shardStatus struct {
	// Shard is the number of the shard, from 0.
	Shard int `json:"shard"`
	// Due is the number of jobs that may run now.
	Due int64 `json:"due"`
	// Held is the number of jobs that are due, and stand in a limit's line, or wait in their throttle group.
	Held int64 `json:"held"`
	// Running is the number of running jobs, with those that wait for an answer.
	Running int64 `json:"running"`
	// OldestDue is since when the oldest due job waits.
	OldestDue job.Time `json:"oldest_due"`
	// Used is how much counts against the throttle limit; null without a limit.
	Used *int `json:"used"`
	// Capacity is Target, or Used if that is more, which no other shard can use. It is null without a limit.
	Capacity *int `json:"capacity"`
	// Target is the shard's share of the limit, at which its starts stop; null without a limit.
	Target *int `json:"target"`
	// RateUsed is Used for the rate; null without a rate.
	RateUsed *int `json:"rate_used"`
	// RateCapacity is Capacity for the rate; null without a rate.
	RateCapacity *int `json:"rate_capacity"`
	// RateTarget is Target for the rate; null without a rate.
	RateTarget *int `json:"rate_target"`
	// ShortSince is since when the limit or the rate lets the shard start nothing; null otherwise.
	ShortSince job.Time `json:"short_since"`
}

func byShard(q *queue.Queue, o admin.Overview) []shardStatus {
	all := []shardStatus{}
	if len(o.Shards) < 2 {
		return all
	}
	for i, of := range o.Shards {
		one := shardStatus{
			Shard: i, Due: of.Due, Held: of.Held, Running: of.Running + of.Waiting, OldestDue: of.OldestDue, ShortSince: job.Time{Time: of.WaitsSince},
		}
		if q.ThrottleLimit > 0 {
			one.Used, one.Capacity, one.Target = &of.Used, new(max(of.Share, of.Used)), &of.Share
		}
		if q.Rate.Starts > 0 {
			one.RateUsed, one.RateCapacity, one.RateTarget = &of.RateUsed, new(max(of.RateShare, of.RateUsed)), &of.RateShare
		}
		all = append(all, one)
	}
	return all
}

func (a *app) printShards(i *instance, queues []queueStatus) error {
	a.out.line("")
	t := newTable(a.out, "QUEUE", "SHARD", "DUE", "HELD", "RUNNING", "USED", "HOLDS", "TO HOLD", "RATE", i.zoned("OLDEST DUE"), i.zoned("SHORT SINCE")).
		narrowing([]string{"QUEUE"}, []string{"HELD", i.zoned("SHORT SINCE"), "TO HOLD", "RATE", "HOLDS"})
	number := func(n *int) string {
		if n == nil {
			return dash("")
		}
		return strconv.Itoa(*n)
	}
	several := false
	for _, q := range queues {
		for _, s := range q.ByShard {
			several = true
			rate := dash("")
			if s.RateCapacity != nil {
				rate = fmt.Sprintf("%d of %d", *s.RateUsed, *s.RateCapacity)
			}
			t.row(q.Queue, fmt.Sprintf("%d of %d", s.Shard, q.Shards), fmt.Sprint(s.Due), fmt.Sprint(s.Held),
				fmt.Sprint(s.Running), number(s.Used), number(s.Capacity), number(s.Target), rate, i.localCell(s.OldestDue.Time), i.localCell(s.ShortSince.Time))
		}
	}
	if !several {
		a.out.line("no queue has several shards")
		return nil
	}
	return t.end()
}

// printWorker prints a worker in one line, or in several if the terminal is narrow.
func (a *app) printWorker(i *instance, which string, w workerStatus) {
	slots := ""
	if w.State == "working" {
		slots = fmt.Sprintf(", holds slots for %d", w.Slots)
	}
	parts := []string{
		which + ": " + w.ID, fmt.Sprintf("%s, pid %d on %s%s", w.State, w.PID, w.Host, slots),
		fmt.Sprintf("started %s, last heartbeat %s%s", i.local(w.StartTime.Time), i.local(w.Heartbeat.Time), w.silence),
	}
	line := strings.Join(parts, ", ")
	if c := a.out.columns(); c == 0 || utf8.RuneCountInString(line) <= c {
		parts = []string{line}
	}
	for n, part := range parts {
		a.out.line("%s%s", map[bool]string{true: "  "}[n > 0], part)
	}
}
