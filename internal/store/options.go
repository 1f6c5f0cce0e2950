package store

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Options describe one queue of an instance. What has a name in JSON is kept so in the database: see settings.
type Options struct {
	// Name is the queue's name.
	Name string `json:"-"`
	// Types are the job types that the config names; jobs of others have the defaults below.
	Types []job.Type `json:"-"`
	// ThrottleLimit is what the throttle factors of the locked and running jobs may sum to; below 1 is no limit.
	ThrottleLimit int `json:"-"`
	// ThrottleGroups are limits of parts of the queue; nil is none.
	ThrottleGroups *job.ThrottleGroups `json:"throttle_groups,omitempty"`
	// RefuseWeightless refuses new jobs whose throttle factor is 0, because no limit would hold them back.
	RefuseWeightless bool `json:"refuse_weightless,omitempty"`
	// Rate bounds the starts in any stretch of time, over all workers.
	Rate job.Rate `json:"rate,omitzero"`
	// Shards is into how many shards its jobs are divided, at most 100. Workers that start jobs of different shards don't wait
	// for each other, and jobs keep their order within a shard only. 0 is 1 for workers, and what the database knows for who
	// enqueues. Reshard, or hipq init, applies a new number; until then workers leave the queue out.
	Shards int `json:"-"`
	// Concurrency is how many of its jobs run at once on one host; 0 is as many as the worker's.
	Concurrency int `json:"concurrency,omitempty"`
	// Order and PriorityOrder say which due job is started first.
	Order         job.Order         `json:"order,omitempty"`
	PriorityOrder job.PriorityOrder `json:"priority_order,omitempty"`
	// DefaultPriority, DefaultTimeout (in whole seconds) and DefaultRetry are for jobs of types that no config has among its
	// Types. nil and 0 are what the database knows of the queue, else 100, a day, and job.DefaultRetry.
	DefaultPriority *int             `json:"default_priority,omitempty"`
	DefaultTimeout  time.Duration    `json:"default_timeout,omitempty"`
	DefaultRetry    *job.RetryPolicy `json:"default_retry,omitempty"`
	// StrictTypes: hipq enqueue and stored procedures, not the library or plain SQL, refuse types that the config lacks.
	StrictTypes bool `json:"strict_types,omitempty"`
	// Location is the zone of the time windows.
	Location *time.Location `json:"-"`
	// KeepFinished and KeepFailed are how long, in whole seconds, purge leaves final jobs without and with error; 0: default.
	KeepFinished, KeepFailed time.Duration `json:"-"`
}

// DiscardAtOnce is the retention of jobs that are deleted in the very transaction in which they become final.
const DiscardAtOnce time.Duration = -1

// Retention by default.
const (
	DefaultKeepFinished = 14 * 24 * time.Hour
	DefaultKeepFailed   = 90 * 24 * time.Hour
)

// Table is the queue as schema.Migrate wants it.
func (o Options) Table() schema.Queue {
	order := schema.OrderLowest
	switch {
	case o.Order == job.BySchedule:
		order = schema.OrderSchedule
	case o.PriorityOrder == job.HighestFirst:
		order = schema.OrderHighest
	}
	return schema.Queue{Name: o.Name, Order: order}
}

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
