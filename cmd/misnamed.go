package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/schema"
)

// instancesMost is how many other instances of a database are named.
const instancesMost = 5

// others names the other instances that have tables in the database, if the config's has none: its name may be misspelt, and
// hipq init would make new tables beside those that have the jobs.
func others(c *config.Config, owned map[string][]string) (has, question string) {
	if len(owned) == 0 || owned[c.Name] != nil {
		return "", ""
	}
	names := slices.Sorted(maps.Keys(owned))
	if near := config.Nearest(c.Name, names); near != "" {
		return "the tables of instance " + near, ": is name: " + c.Name + " misspelt?"
	}
	if more := len(names) - instancesMost; more > 0 {
		names = append(names[:instancesMost], fmt.Sprintf("and %d more", more))
	}
	return "the tables of " + map[bool]string{true: "instance ", false: "instances "}[len(names) == 1] + strings.Join(names, ", "), ""
}

// misnamed adds to the error of tables that are not there which others are.
func misnamed(ctx context.Context, db *schema.DB, c *config.Config, err error) error {
	if !errors.Is(err, schema.ErrNotMigrated) || errors.Is(err, schema.ErrAbsent) {
		return err
	}
	owned, unread := db.Owned(ctx)
	if unread != nil {
		return err
	}
	if has, question := others(c, owned); has != "" {
		return advised{err, "it has " + has + question}
	}
	unfit, _ := errors.AsType[schema.QueueErrors](err)
	strays := slices.DeleteFunc(owned[c.Name], func(name string) bool { return slices.Contains(c.QueueNames(), name) })
	for name, err := range unfit {
		if near := config.Nearest(name, strays); near != "" && !slices.Contains(owned[c.Name], name) {
			unfit[name] = fmt.Errorf("%w, but that of queue %s, which is not in this config: is %s misspelt?", err, near, name)
		}
	}
	return err
}
