package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Division is how the jobs of a queue are divided into shards, as the database has it.
type Division struct {
	// Of is how many shards there are.
	Of int
	// number is that by which the tables know it.
	number int
	// Otherwise is an ErrShards if the queue's options say that it is divided otherwise: until Reshard their workers leave the queue
	// out. nil if they don't.
	Otherwise error
}

// Place is the number by which the tables, and job.Place, know one of the shards: they are from 0 to one less than how many there are.
func (d Division) Place(shard int) int { return d.number*1000 + shard }

// Shard is which of the shards a place is; ok is false if it is none of them: the job was placed when the queue was divided otherwise.
func (d Division) Shard(place int) (shard int, ok bool) { return shards.In(d.number, place) }

// Division reads how the queue is divided.
func (q *Queue) Division(ctx context.Context) (Division, error) {
	number, err := q.divisionOf(ctx, q.db)
	if err != nil {
		return Division{}, err
	}
	own := q.division().Number()
	if shards.N(number) < 1 {
		number = own // it isn't registered yet
	}
	d := Division{Of: shards.N(number), number: number}
	if q.Shards > 0 && number != own {
		d.Otherwise = q.otherwiseDivided(number)
	}
	return d, nil
}

// ShardState is how one shard of a queue stands.
type ShardState struct {
	// Shard is from 0 to one less than how many there are.
	Shard int
	// Due may run now, Held but for their full throttle groups; Running are, those too that wait for an answer. Rows that plain SQL has
	// inserted are in no shard before they are taken in.
	Due, Held, Running int64
	// OldestDue is since when the first of Due and Held has been; zero if none is.
	OldestDue time.Time
	// Used is what counts against the queue's throttle limit, Share what the shard may use of that: it starts nothing beyond it.
	// Used is more while the shard gives room to others, which get it as its jobs end. Both are 0 in a queue without a limit.
	Used, Share int
	// RateUsed and RateShare are the same of the starts of the queue's rate.
	RateUsed, RateShare int
	// WaitsSince is since when it has started nothing for want of the limit or the rate; zero if it doesn't wait for these.
	WaitsSince time.Time
}

// ShardStates tells how each shard of a queue stands, as of the database's clock, in order. It reads all due jobs, in the index.
func (q *Queue) ShardStates(ctx context.Context) ([]ShardState, error) {
	d, err := q.Division(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]ShardState, d.Of)
	for i := range all {
		all[i].Shard = i
	}
	if err = q.stateOfParts(ctx, d, all); err == nil {
		err = q.stateOfJobs(ctx, d, all)
	}
	if err != nil {
		return nil, fmt.Errorf("read how the shards of %s stand: %w", q.Name, err)
	}
	return all, nil
}

// stateOfParts adds what the shards hold.
func (q *Queue) stateOfParts(ctx context.Context, d Division, all []ShardState) error {
	now, err := q.db.Clock(ctx)
	if err != nil {
		return err
	}
	return q.db.Read(ctx, q.shardRows(now, func(r shardRow) {
		i, ok := d.Shard(r.place)
		if !ok {
			return
		}
		s := &all[i]
		s.Share, s.RateShare = r.share, r.rateShare
		if d.Of == 1 { // there is none to divide it with
			s.Share, s.RateShare = max(0, q.ThrottleLimit), q.Rate.Starts
		}
		s.RateUsed = r.startsLately(q.Rate, now)
		if r.waits(now) {
			s.WaitsSince = time.UnixMicro(r.waitSince).UTC()
		}
	}))
}

// stateOfJobs adds how the jobs of the shards stand.
func (q *Queue) stateOfJobs(ctx context.Context, d Division, all []ShardState) error {
	first, end := d.Place(0), d.Place(d.Of)
	const placed = " AND shard >= ? AND shard < ?"
	at := "(SELECT " + q.db.Now + ")"
	for _, query := range []string{
		"SELECT shard, status, COUNT(*) AS n, " + q.db.TimeText("MIN(scheduled_run_time)") + " AS oldest, 0 AS used FROM " + q.table + " " + q.claimIndex() +
			" WHERE status IN ('available', 'throttled')" + placed + " GROUP BY status, shard",
		"SELECT shard, 'available' AS status, COUNT(*) AS n, " + q.db.TimeText("MIN(wake_time)") + " AS oldest, 0 AS used FROM " + q.table + " " + q.index("wake") +
			" WHERE status = 'scheduled' AND wake_time <= " + at + placed + " GROUP BY shard",
		"SELECT shard, 'running' AS status, COALESCE(SUM(status IN ('running', 'awaiting')), 0) AS n, NULL AS oldest," +
			" COALESCE(SUM(CASE WHEN " + schema.Counts + " THEN throttle_factor + 0.0 ELSE 0 END), 0) AS used FROM " + q.table + " " + q.claimIndex() +
			" WHERE status IN ('locked', 'running', 'answered', 'deciding', 'awaiting')" + placed + " GROUP BY shard",
	} {
		var found []struct {
			Shard   int
			Status  job.Status
			N, Used float64
			Oldest  engine.Time
		}
		if err := q.db.SelectContext(ctx, &found, query, first, end); err != nil {
			return err
		}
		for _, f := range found {
			i, ok := d.Shard(f.Shard)
			if !ok {
				continue
			}
			s := &all[i]
			switch f.Status {
			case job.StatusAvailable:
				s.Due += int64(f.N)
			case job.StatusThrottled:
				s.Held += int64(f.N)
			default:
				s.Running, s.Used = int64(f.N), int(f.Used)
			}
			if !f.Oldest.IsZero() && (s.OldestDue.IsZero() || f.Oldest.Before(s.OldestDue)) {
				s.OldestDue = f.Oldest.Time
			}
		}
	}
	return nil
}

// Misplaced counts the jobs that are to start or to be decided about, and are in none of the queue's shards: they were placed when
// it was divided otherwise. Workers move them, and start none before.
func (q *Queue) Misplaced(ctx context.Context) (n int64, err error) {
	d, err := q.Division(ctx)
	if err != nil {
		return 0, err
	}
	for _, outside := range []struct {
		where string
		place int
	}{{"shard < ?", d.Place(0)}, {"shard >= ?", d.Place(d.Of)}} {
		var some int64
		err := q.db.GetContext(ctx, &some, "SELECT COUNT(*) FROM "+q.table+" "+q.claimIndex()+" WHERE status IN "+misplacedOf+" AND "+outside.where, outside.place)
		if err != nil {
			return 0, fmt.Errorf("count the misplaced jobs of %s: %w", q.Name, err)
		}
		n += some
	}
	return n, nil
}
