package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
)

// lookAtShards compares the queues' shards and limits with the config. hipq monitor looks at what the shards hold.
func lookAtShards(ctx context.Context, p *patient) Finding {
	var said, wrong, doubtful []string
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
