package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/schema"
)

const instancesMost = 5

// Others are the tables of the other instances that the database has, if the config's has none: its name may be misspelt, and
// hipq init would make new tables beside those that have the jobs.
func Others(c *config.Config, owned map[string][]string) string {
	if len(owned) == 0 || owned[c.Name] != nil {
		return ""
	}
	names := slices.Sorted(maps.Keys(owned))
	if near := config.Nearest(c.Name, names); near != "" {
		return "the tables of instance " + near + ": is name: " + c.Name + " misspelt?"
	}
	if more := len(names) - instancesMost; more > 0 {
		names = append(names[:instancesMost], fmt.Sprintf("and %d more", more))
	}
	return "the tables of " + map[bool]string{true: "instance ", false: "instances "}[len(names) == 1] + strings.Join(names, ", ")
}

// Misnamed adds to the error of queues' tables that are not there which others are, and gives that of an instance as advice.
func Misnamed(ctx context.Context, db *schema.DB, c *config.Config, err error) (advice string, _ error) {
	if !errors.Is(err, schema.ErrNotMigrated) || errors.Is(err, schema.ErrAbsent) {
		return "", err
	}
	owned, unread := db.Owned(ctx)
	if unread != nil {
		return "", err
	}
	if others := Others(c, owned); others != "" {
		return "it has " + others, err
	}
	unfit, _ := errors.AsType[schema.QueueErrors](err)
	strays := slices.DeleteFunc(slices.Clone(owned[c.Name]), func(name string) bool { return slices.Contains(c.QueueNames(), name) })
	for name, err := range unfit {
		if near := config.Nearest(name, strays); near != "" && !slices.Contains(owned[c.Name], name) {
			unfit[name] = fmt.Errorf("%w, but that of queue %s, which is not in this config: is %s misspelt?", err, near, name)
		}
	}
	return "", err
}

// strayMost is up to how many jobs of each status are counted in a queue that no config has.
const strayMost = 1000

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
		has, _, err = admin.Of(q).Sketch(ctx, strayMost)
		if n := has.Due + has.Held + has.Scheduled + has.Locked + has.Running + has.Waiting + has.Error; err == nil && n > 0 {
			jobs := texts.Count(n, "job")
			if n >= strayMost {
				jobs = admin.AtLeast(strayMost, strayMost) + " jobs"
			}
			text := fmt.Sprintf("queue %s has %s but is not in this config", o.Name, jobs)
			if near := config.Nearest(o.Name, c.QueueNames()); near != "" {
				text += ": is " + near + " misspelt?"
			}
			said = append(said, text)
		}
	}
	return said, err
}

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
