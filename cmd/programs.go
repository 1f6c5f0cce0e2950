package cmd

import (
	"fmt"
	"slices"

	"github.com/hipq/hipq/config"
)

// warnOfPrograms warns of handlers and retry handlers whose programs can't be run here, of these queues and job types; none named
// is all. It looks at files and runs nothing. It passes over the types of handlers with these keys.
func (a *app) warnOfPrograms(c *config.Config, queues, types []string, except map[string]bool) {
	wanted := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	for _, q := range c.Queues {
		for _, t := range q.Types {
			if !wanted(queues, q.Name) || !wanted(types, t.Name) || except[q.Handlers[t.Name].Key] {
				continue
			}
			for _, by := range []map[string]config.Handler{q.Handlers, q.RetryHandlers} {
				h, ok := by[t.Name]
				if !ok {
					continue
				}
				if err := canRun(c, h); err != nil {
					a.warn(fmt.Errorf("%s can't be run: %w", h.Key, err))
				}
			}
		}
	}
}
