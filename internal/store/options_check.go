package store

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue/job"
)

func (o Options) check() error {
	for n, t := range o.Types {
		err := t.Check()
		switch {
		case err != nil:
			return fmt.Errorf("job type %q: %w", t.Name, err)
		case o.RefuseWeightless && t.ThrottleFactor == 0:
			return fmt.Errorf("job type %q: %w", t.Name, job.ErrWeightless)
		case slices.ContainsFunc(o.Types[:n], func(before job.Type) bool { return before.Name == t.Name }):
			return fmt.Errorf("job type %q is there twice", t.Name)
		}
	}
	isKept := func(d time.Duration) bool {
		return d == DiscardAtOnce || d >= 0 && d%time.Second == 0 && d <= job.MaxSeconds*time.Second
	}
	switch {
	case o.ThrottleLimit > math.MaxInt32:
		return fmt.Errorf("the ThrottleLimit %d is more than %d", o.ThrottleLimit, math.MaxInt32)
	case o.Shards < 0 || o.Shards > policy.MaxShards:
		return fmt.Errorf("the Shards %d are not from 0 to %d", o.Shards, policy.MaxShards)
	case o.Concurrency < 0 || o.Concurrency > math.MaxInt32:
		return fmt.Errorf("the Concurrency %d is not from 0 to %d", o.Concurrency, math.MaxInt32)
	case o.Rate.Starts < 0 || o.Rate.Starts > math.MaxInt32 || o.Rate.Per < 0 || o.Rate.Per > job.MaxSeconds*time.Second ||
		(o.Rate.Starts == 0) != (o.Rate.Per == 0):
		return fmt.Errorf("a Rate of %d starts per %s is none", o.Rate.Starts, o.Rate.Per)
	case !slices.Contains([]job.Order{"", job.ByPriority, job.BySchedule}, o.Order):
		return fmt.Errorf("the Order %q is neither %s nor %s", o.Order, job.ByPriority, job.BySchedule)
	case !slices.Contains([]job.PriorityOrder{"", job.LowestFirst, job.HighestFirst}, o.PriorityOrder):
		return fmt.Errorf("the PriorityOrder %q is neither %s nor %s", o.PriorityOrder, job.LowestFirst, job.HighestFirst)
	case o.ThrottleGroups != nil && !job.IsGroupBy(o.ThrottleGroups.By):
		return fmt.Errorf("the ThrottleGroups: By %q is neither %s nor %sNAME", o.ThrottleGroups.By, job.GroupByType, job.GroupByData)
	case !isKept(o.KeepFinished), !isKept(o.KeepFailed):
		return fmt.Errorf("the KeepFinished %s, or KeepFailed %s, is neither DiscardAtOnce nor a number of whole seconds to %d",
			o.KeepFinished, o.KeepFailed, job.MaxSeconds)
	}
	if err := o.defaultType("any").Check(); err != nil {
		return fmt.Errorf("the DefaultPriority, DefaultTimeout or DefaultRetry: %w", err)
	}
	return nil
}
