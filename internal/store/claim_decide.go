package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// Jobs that wait for a limit are throttled, which keeps them out of the ranges of due jobs. The first of each limit are in
// the part "line", where rounds look. Behind them, a full group holds its other jobs in a part of its own, where rounds look
// once the group has room: a transaction that frees some puts a job of the group into the line.

// decide says what each of the locked candidates does, and does all but starting them.
func (c *start) decide(ctx context.Context, list []candidate, n int) (taken []*job.Job, err error) {
	jobs, does, left := make([]claim.Job, len(list)), map[claim.Action][]*job.Job{}, []candidate(nil)
	for i, one := range list {
		jobs[i] = c.asClaimed(one)
	}
	for i, d := range c.Limits.Decide(jobs, n, c.tx.Now) {
		j, was := list[i].job, jobs[i]
		if j == nil {
			c.missed = true
			continue
		}
		does[d.Action] = append(does[d.Action], j)
		c.waits = c.waits || was.Ours && d.Lacks != claim.None && d.Lacks != claim.Rate && d.Lacks != claim.Slot
		waits := was.Held || was.InLine
		c.unasked = c.unasked || waits && d.Lacks == claim.Slot
		switch d.Action {
		case claim.Leave:
			left = append(left, list[i])
			if waits {
				c.stays(j.Group, !was.Held)
			}
		case claim.Hold, claim.LineUp, claim.Unask:
			c.stays(j.Group, d.Action != claim.Hold)
		}
	}
	c.round.Candidates.unread(left)
	c.invalid = append(c.invalid, does[claim.Reject]...)
	for _, j := range does[claim.Postpone] { // to the next opening of its windows
		opening := policy.Opening(j.Windows, c.Location, c.tx.Now)
		status, wake := policy.StatusAt(opening, c.tx.Now)
		err := c.tx.Write(ctx, "UPDATE "+c.table+" "+c.db.SQL.ByID+" SET status = ?, scheduled_run_time = ?, wake_time = ?, asked_time = NULL, update_time = ? WHERE id = ?",
			status, engine.At(opening), engine.At(wake), engine.At(c.tx.Now), j.ID)
		if err != nil {
			return nil, fmt.Errorf("postpone job %d to its window: %w", j.ID, err)
		}
	}
	return does[claim.Start], c.lineUp(ctx, does)
}

// stays notes that a group still holds jobs, or that one of them is in line.
func (c *start) stays(group string, inLine bool) { c.held[group] = c.held[group] || inLine }

// overlooked are the groups with room that hold jobs of which none is in line, where no later round would look.
func (c *start) overlooked() map[shardGroup]bool {
	for _, r := range c.ranges {
		if len(r.read) > 0 || r.moreBehind {
			c.stays(r.part, false)
		}
	}
	if c.line != nil { // the round hasn't looked at these
		for _, one := range c.line.read {
			c.stays(one.waits.Group, true)
		}
	}
	groups := map[shardGroup]bool{}
	for g, inLine := range c.held {
		if limit := c.Limits[claim.Scope(g)]; !inLine && limit != nil && limit.HasRoom(1) {
			groups[shardGroup{c.place(c.shard), g}] = true
		}
	}
	return groups
}

// asClaimed is a candidate as the rules see it.
func (c *start) asClaimed(from candidate) claim.Job {
	j := cmp.Or(from.job, from.waits)
	one := claim.Job{Elsewhere: from.job == nil}
	if r := from.from; r != nil && r.moreBehind && from.ID == r.last.ID {
		one.Unread = claim.Scope(r.part)
	}
	if j == nil {
		return one
	}
	one.Weight, one.Invalid = j.ThrottleFactor, j.Invalid != nil
	one.Ours = !one.Elsewhere && c.round.Candidates.types.Has(j.Type)
	one.Busy = slices.ContainsFunc(c.round.Busy, func(t Types) bool { return t.Has(j.Type) })
	if c.ThrottleGroups != nil {
		one.Group = claim.Scope(j.Group)
	}
	one.Asked = j.AskedTime
	one.InLine = j.Status == job.StatusThrottled && !j.AskedTime.IsZero()
	one.Held = j.Status == job.StatusThrottled && j.AskedTime.IsZero()
	if !one.Invalid && len(j.Windows) > 0 {
		one.Opens = policy.Opening(j.Windows, c.Location, c.tx.Now)
	}
	return one
}

// lineUp writes who waits where.
func (c *start) lineUp(ctx context.Context, does map[claim.Action][]*job.Job) error {
	for _, of := range []struct {
		jobs []*job.Job
		set  string
		args []any
	}{
		{does[claim.Unask], "asked_time = ?", []any{engine.At(c.tx.Now.Add(-claim.AskLasts))}},
		{does[claim.Release], "status = 'available', asked_time = NULL", nil},
		{does[claim.Hold], "status = 'throttled', asked_time = NULL", nil},
		{does[claim.LineUp], "status = 'throttled', asked_time = ?", []any{engine.At(c.tx.Now)}},
	} {
		for batch := range slices.Chunk(of.jobs, setGroupMax) {
			group, groups := c.setGroup(batch)
			args := slices.Concat(of.args, groups, texts.Map(batch, func(j *job.Job) any { return j.ID }))
			err := c.tx.Write(ctx, "UPDATE "+c.table+" "+c.db.SQL.ByID+" SET "+of.set+group+" WHERE id IN "+engine.In(len(batch)), args...)
			if err != nil {
				return fmt.Errorf("line up jobs of %s: %w", c.Name, err)
			}
		}
	}
	for _, j := range does[claim.Release] {
		if j.Group != job.None { // and all of its type behind it
			if err := c.releaseHeld(ctx, j.Group, j.Type); err != nil {
				return err
			}
		}
	}
	return nil
}
