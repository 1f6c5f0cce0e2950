// Package store holds the job tables: how jobs are added, claimed, started, settled and rescued. Package queue exports what
// applications call, package admin what operators call. Package worker calls the rest.
//
// add.go adds jobs. round.go is the transaction in which a worker settles attempts and starts jobs: claim.go starts them
// (claim_candidates.go reads and locks, claim_decide.go applies the rules of internal/claim), settle.go finds what attempts have
// left, and end.go writes how their jobs go on, by internal/policy. rescue.go has the jobs of dead workers, and
// shards_divide.go divides limits among shards.
package store

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Queue is the jobs of one table. It is safe for concurrent use.
type Queue struct {
	Options
	db         *schema.DB
	workers    *workers.Table
	table      string
	configured map[string]job.Type
	// known caches the registration; nil until it is first read.
	known     atomic.Pointer[registration]
	abandoned sync.Map
	// divisions are those of the limits among the shards, stuck is the search for jobs of dead workers, and overlooked that for groups
	// with room that hold jobs: it has looked up to the group lookedUpTo.
	divisions, stuck, overlooked pacer
	lookedUpTo                   atomic.Pointer[shardGroup]
	// listeners are called when this program has added jobs: see OnAdded.
	listeners sync.Map
	// agreed is a registration that agrees with the options. It spares polls the comparison, because groups may be many.
	agreed atomic.Pointer[queueRecord]
}

// New returns the queue with these options. It doesn't access the database.
func New(db *schema.DB, o Options) (*Queue, error) {
	if db == nil {
		return nil, fmt.Errorf("queue %s: the database is nil", o.Name)
	}
	table, err := db.CheckQueue(o.Name)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: queue %s: %w", ErrOptions, o.Name, err)
	}
	o.Location = cmp.Or(o.Location, time.UTC)
	o.KeepFinished, o.KeepFailed = cmp.Or(o.KeepFinished, DefaultKeepFinished), cmp.Or(o.KeepFailed, DefaultKeepFailed)
	q := &Queue{Options: o, db: db, workers: workers.New(db), table: table, configured: map[string]job.Type{}}
	for _, t := range o.Types {
		q.configured[t.Name] = t
	}
	return q, nil
}

// DB is the database that holds the queue.
func (q *Queue) DB() *schema.DB { return q.db }

// Table is the name of the queue's table.
func (q *Queue) Table() string { return q.table }

// Workers is the instance's table of workers.
func (q *Queue) Workers() *workers.Table { return q.workers }

// Configured returns the job type of this name from the config, or the one for all types, if that has it.
func (q *Queue) Configured(name string) (t job.Type, ok bool) {
	if t, ok = q.configured[name]; !ok {
		t, ok = q.configured[job.AllTypes]
	}
	return t, ok
}

// Index is the hint that makes a query use one of the table's indexes.
func (q *Queue) Index(name string) string { return q.db.SQL.Index(q.table, name) }

// ClaimIndex is the hint for the index that orders the jobs of each status as the queue starts them.
func (q *Queue) ClaimIndex() string { return q.Index(schema.ClaimIndex) }

// Abandoned has, by the jobs' ids, the numbers of attempts that have ended although their handlers here haven't returned.
func (q *Queue) Abandoned() *sync.Map { return &q.abandoned }

// PausedExpr is an SQL expression that tells whether the queue is paused. Its parameter is the queue's name.
func (q *Queue) PausedExpr() string {
	return "EXISTS (SELECT 1 FROM " + q.db.Queues() + " WHERE queue = ? AND paused = 1)"
}

// Errors, which packages queue and admin export.
var (
	ErrOptions      = errors.New("queue options")
	ErrNotFound     = errors.New("no such job")
	ErrNotStarted   = errors.New("the job has not been started")
	ErrOtherAttempt = errors.New("the token belongs to another attempt")
	ErrStarted      = errors.New("the job has started")
	ErrFinal        = errors.New("the job is final")
	ErrLocked       = errors.New("a worker has locked the job")
	ErrNotIngested  = errors.New("no worker has taken the job in yet")
	ErrNoRoom       = errors.New("the queue's limits leave no room for the job now")
)

// Options configure one queue of an instance. Only Name is required. The database stores the fields that have a JSON name: see
// settings. Those with a key are in the config.
type Options struct {
	// Name is the queue's name.
	Name string `json:"-" key:"name" required:"yes"`
	// Types are the configured job types; may be nil. Jobs of other types get the defaults below.
	Types []job.Type `json:"-"`
	// Config names the config that Types come from, on this host. Register deletes the types that it has registered for that name
	// and that are no longer in Types. Empty means that none are deleted.
	Config string `json:"-"`
	// ThrottleLimit bounds the sum of the throttle factors of locked and running jobs; 0 means no limit. This, ThrottleGroups
	// and Rate hold for all workers. hipq init or admin.Queue.Reshard applies new values; until then workers skip the queue.
	ThrottleLimit int `json:"-" key:"throttle_limit" from:"-2147483648"`
	// ThrottleGroups limit groups of jobs; nil means no groups.
	ThrottleGroups *job.ThrottleGroups `json:"throttle_groups,omitempty" key:"throttle_groups"`
	// RefuseWeightless refuses new jobs whose throttle factor is 0, because no limit would hold them back.
	RefuseWeightless bool `json:"refuse_weightless,omitempty"`
	// Rate limits how many jobs start in any period, across all workers; the zero Rate is no limit.
	Rate job.Rate `json:"rate,omitzero"`
	// Shards is the number of shards, at most 100. Workers on different shards don't block each other; jobs keep their order
	// only within a shard. 0 means 1 for workers, and the database's number for applications. hipq init applies a new number;
	// until then workers skip the queue.
	Shards int `json:"-" key:"shards" from:"1" to:"100" default:"1"`
	// Concurrency is how many of the queue's jobs may run at once on one host; 0 means the worker's limit.
	Concurrency int `json:"concurrency,omitempty" key:"concurrency" from:"1" to:"10000"`
	// Order decides which due job starts first; empty means job.ByPriority.
	Order job.Order `json:"order,omitempty" key:"order" words:"priority schedule"`
	// PriorityOrder says whether low or high priorities come first; empty means job.LowestFirst.
	PriorityOrder job.PriorityOrder `json:"priority_order,omitempty" key:"priority_order" words:"lowest highest"`
	// DefaultPriority applies to types missing from Types. nil means the database's value, or else 100.
	DefaultPriority *int `json:"default_priority,omitempty"`
	// DefaultTimeout is in whole seconds. 0 means the database's value, or else a day.
	DefaultTimeout time.Duration `json:"default_timeout,omitempty"`
	// DefaultRetry: nil means the database's value, or else job.DefaultRetry.
	DefaultRetry *job.RetryPolicy `json:"default_retry,omitempty"`
	// StrictTypes makes hipq enqueue and stored procedures refuse unconfigured types. The library and plain SQL ignore it.
	StrictTypes bool `json:"strict_types,omitempty" key:"strict_types" inherits:"strict_types"`
	// Location is the time zone of the time windows; nil means UTC.
	Location *time.Location `json:"-"`
	// KeepFinished is how long purge keeps finished jobs, in whole seconds; 0 means the default.
	KeepFinished time.Duration `json:"-" key:"keep_finished" whole:"1s" default:"14d"`
	// KeepFailed is the same for failed ones.
	KeepFailed time.Duration `json:"-" key:"keep_failed" whole:"1s" default:"90d"`
}

// DiscardAtOnce is a retention: the transaction that makes a job final deletes it.
const DiscardAtOnce time.Duration = -1

// Default retention.
const (
	DefaultKeepFinished = 14 * 24 * time.Hour
	DefaultKeepFailed   = 90 * 24 * time.Hour
)

// Table returns the queue in the form that schema.Migrate takes.
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
			return fmt.Errorf("job type %q is listed twice", t.Name)
		}
	}
	isKept := func(d time.Duration) bool {
		return d == DiscardAtOnce || d >= 0 && d%time.Second == 0 && d <= job.MaxSeconds*time.Second
	}
	if g := o.ThrottleGroups; g != nil {
		for value := range g.Limits {
			if len(value) > g.MaxValueBytes() {
				return fmt.Errorf("option ThrottleGroups.Limits has a value of %d bytes; the maximum for %s is %d", len(value), g.By, g.MaxValueBytes())
			}
		}
	}
	switch {
	case o.ThrottleLimit > math.MaxInt32:
		return fmt.Errorf("option ThrottleLimit %d is more than %d", o.ThrottleLimit, math.MaxInt32)
	case o.Shards < 0 || o.Shards > policy.MaxShards:
		return fmt.Errorf("option Shards %d is not from 0 to %d", o.Shards, policy.MaxShards)
	case o.Concurrency < 0 || o.Concurrency > math.MaxInt32:
		return fmt.Errorf("option Concurrency %d is not from 0 to %d", o.Concurrency, math.MaxInt32)
	case o.Rate.Starts < 0 || o.Rate.Starts > math.MaxInt32 || o.Rate.Per < 0 || o.Rate.Per > job.MaxSeconds*time.Second ||
		(o.Rate.Starts == 0) != (o.Rate.Per == 0):
		return fmt.Errorf("option Rate: %d starts per %s is not a rate", o.Rate.Starts, o.Rate.Per)
	case !slices.Contains([]job.Order{"", job.ByPriority, job.BySchedule}, o.Order):
		return fmt.Errorf("option Order %q is neither %s nor %s", o.Order, job.ByPriority, job.BySchedule)
	case !slices.Contains([]job.PriorityOrder{"", job.LowestFirst, job.HighestFirst}, o.PriorityOrder):
		return fmt.Errorf("option PriorityOrder %q is neither %s nor %s", o.PriorityOrder, job.LowestFirst, job.HighestFirst)
	case o.ThrottleGroups != nil && !job.IsGroupBy(o.ThrottleGroups.By):
		return fmt.Errorf("option ThrottleGroups.By %q is neither %s nor %sNAME", o.ThrottleGroups.By, job.GroupByType, job.GroupByData)
	case !isKept(o.KeepFinished), !isKept(o.KeepFailed):
		return fmt.Errorf("option KeepFinished %s or KeepFailed %s is neither DiscardAtOnce nor a number of whole seconds up to %d",
			o.KeepFinished, o.KeepFailed, job.MaxSeconds)
	}
	return texts.Wrap(o.defaultType("any").Check(), "option DefaultPriority, DefaultTimeout or DefaultRetry")
}
