package cmd

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/monitor"
)

// state reads the instance's state. It adds unusable queues, overdue schedules and the disk to the database's
// figures. It counts up to most jobs of a type; 0 is all.
func (i *instance) state(ctx context.Context, most int64) (monitor.State, error) {
	s, err := monitor.New(i.db).State(ctx, i.Alert.Over, most)
	if err != nil {
		return s, err
	}
	for name, why := range i.unfit {
		s.LeftOut = append(s.LeftOut, monitor.LeftOut{Queue: name, Why: why.Error()})
	}
	slices.SortFunc(s.LeftOut, func(a, b monitor.LeftOut) int { return strings.Compare(a.Queue, b.Queue) })
	if path := i.Database.Path; path != "" {
		if v, unknown := monitor.DiskOf(filepath.Dir(path)); unknown == nil {
			s.Disk = &v
		}
	}
	if len(i.Schedules) == 0 {
		return s, nil
	}
	rows, err := scheduler.New(i.db, i.Schedules).Own(ctx)
	for _, r := range rows {
		if late := r.Overdue(); late > scheduler.OverdueFor {
			s.Overdue = append(s.Overdue, monitor.Overdue{Schedule: r.Name, For: late, Within: scheduler.OverdueFor})
		}
	}
	return s, err
}
