package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
)

// lookAtShards compares the queues' shards and limits with the config, and checks their shards.
func lookAtShards(ctx context.Context, p *patient) Finding {
	var said, wrong, doubtful []string
	registered, err := admin.Registered(ctx, p.db)
	if err != nil {
		return trouble(err)
	}
	unmade := p.unmade(ctx)
	for _, c := range p.Config.Queues {
		if unmade(c.Name) {
			continue
		}
		q, err := queue.New(p.db, c.Options)
		if err != nil {
			return trouble(err)
		}
		d, err := admin.Of(q).Division(ctx)
		if err != nil {
			return trouble(err)
		}
		if d.Otherwise != nil {
			wrong = append(wrong, fmt.Sprintf("hipq work leaves out queue %s: %s", c.Name, d.Otherwise))
			continue
		}
		flaw, err := p.flawOfShards(ctx, q, d, registered)
		if err != nil {
			return trouble(err)
		}
		if flaw != "" {
			wrong = append(wrong, "queue "+c.Name+": "+flaw)
		}
		misplaced, err := admin.Of(q).Misplaced(ctx)
		if err != nil {
			return trouble(err)
		}
		if misplaced > 0 {
			doubtful = append(doubtful, fmt.Sprintf("queue %s has %d jobs in none of its shards", c.Name, misplaced))
		}
		if d.Of > 1 {
			said = append(said, fmt.Sprintf("%s has %d", c.Name, d.Of))
		}
	}
	switch {
	case len(wrong) > 0:
		return found(Wrong, strings.Join(wrong, "; ")).but("run hipq init: it applies the shards and limits of this config")
	case len(doubtful) > 0:
		return found(Warning, strings.Join(doubtful, "; ")).but("run hipq work, which moves them, or hipq init")
	case len(said) == 0:
		return found(OK, "no queue has several")
	}
	return found(OK, strings.Join(said, ", "))
}

// flawOfShards says what is wrong with a queue's shards; "" if nothing, or if there are none because no worker has run
// yet. It uses the registered limit and rate, because the next worker divides new ones.
func (p *patient) flawOfShards(ctx context.Context, q *queue.Queue, d admin.Division, registered []queue.Options) (string, error) {
	at := slices.IndexFunc(registered, func(o queue.Options) bool { return o.Name == q.Name })
	if at < 0 {
		return "", nil
	}
	var rows []struct {
		Place int   `db:"shard"`
		Share int64 `db:"share"`
		Rate  int64 `db:"rate_share"`
	}
	err := p.db.SQL.SelectContext(ctx, &rows, "SELECT shard, CAST(share AS SIGNED INTEGER) AS share, CAST(rate_share AS SIGNED INTEGER) AS rate_share FROM "+
		p.db.Shards()+" WHERE queue = ?", q.Name)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	var limit, rate int64
	for _, r := range rows {
		if _, ok := d.Shard(r.Place); !ok {
			return fmt.Sprintf("its row of %s with the shard %d belongs to another division of the queue", p.db.Shards(), r.Place), nil
		}
		limit, rate = limit+r.Share, rate+r.Rate
	}
	wantLimit, wantRate := int64(max(0, registered[at].ThrottleLimit)), int64(registered[at].Rate.Starts)
	switch {
	case len(rows) != d.Of:
		return fmt.Sprintf("%s has rows for %d of its %d shards", p.db.Shards(), len(rows), d.Of), nil
	case d.Of > 1 && limit > wantLimit:
		return fmt.Sprintf("its shards hold %d of the throttle limit %d", limit, wantLimit), nil
	case d.Of > 1 && rate > wantRate:
		return fmt.Sprintf("its shards hold %d of the %d starts of its rate", rate, wantRate), nil
	}
	return "", nil
}
