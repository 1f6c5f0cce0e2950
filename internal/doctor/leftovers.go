package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
)

// addLeftovers adds the processes on this host that have outlived the worker whose handler started them.
func (p *patient) addLeftovers(ctx context.Context, f *Finding) {
	of := guard.Programs(p.Config.File) // before the workers: what a new worker starts now is none of them
	atWork, err := workers.New(p.db).AtWork(ctx)
	if err != nil {
		return // the finding says so
	}
	for _, w := range atWork {
		maps.DeleteFunc(of, func(_ int, id string) bool { return id == w.ID })
	}
	still := guard.Programs(p.Config.File) // a worker may just have ended
	maps.DeleteFunc(of, func(pid int, id string) bool { return still[pid] != id })
	for n, pid := range slices.Sorted(maps.Keys(of)) {
		if n == maxLeftovers {
			f.add(Wrong, fmt.Sprintf("and %d more", len(of)-n), "")
			return
		}
		f.add(Wrong, fmt.Sprintf("process %d is of a handler, and its worker %s has ended", pid, texts.Clean(of[pid])), fmt.Sprintf("kill -KILL %d", pid))
	}
}

// maxLeftovers is how many a finding names.
const maxLeftovers = 10
