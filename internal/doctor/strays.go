package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/schema"
)

// Strays says which queues have jobs that are not final and are not in the config: no worker with this config runs them.
func Strays(ctx context.Context, db *schema.DB, c *config.Config) (said []string, err error) {
	registered, err := admin.Registered(ctx, db)
	for _, o := range registered {
		if err != nil {
			return nil, err
		}
		if slices.Contains(c.QueueNames(), o.Name) || db.Check(ctx, []schema.Queue{o.Table()}) != nil { // its table may be gone
			continue
		}
		q, unfit := queue.New(db, o)
		if unfit != nil {
			return nil, unfit
		}
		var has admin.Overview
		has, err = admin.Of(q).Overview(ctx)
		if n := has.Due + has.Held + has.Scheduled + has.Locked + has.Running + has.Waiting + has.Error; err == nil && n > 0 {
			text := fmt.Sprintf("queue %s has %s but is not in this config", o.Name, texts.Count(n, "job"))
			if near := config.Nearest(o.Name, c.QueueNames()); near != "" {
				text += ": is " + near + " misspelt?"
			}
			said = append(said, text)
		}
	}
	return said, err
}
