package queue

import (
	"cmp"
	"strings"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Table is the queue as schema.Migrate wants it.
func (o Options) Table() schema.Queue {
	t := schema.Queue{Name: o.Name}
	switch {
	case o.Order == job.BySchedule && o.PriorityOrder == job.HighestFirst:
		t.Order = schema.OrderScheduleHighest
	case o.Order == job.BySchedule:
		t.Order = schema.OrderSchedule
	case o.PriorityOrder == job.HighestFirst:
		t.Order = schema.OrderHighest
	}
	return t
}

// sorting is an order as queries have it: the index that has the due jobs in this order, and its columns behind the type.
type sorting struct {
	index string
	keys  []sortKey
}

// sortKey is one column to sort by.
type sortKey struct {
	column     string
	descending bool
	value      func(candidate) any
	compare    func(a, b candidate) int
}

func (o Options) sorting() sorting {
	priority := sortKey{
		"priority", o.PriorityOrder == job.HighestFirst,
		func(c candidate) any { return c.Priority },
		func(a, b candidate) int { return cmp.Compare(a.Priority, b.Priority) },
	}
	schedule := sortKey{
		"scheduled_run_time", false,
		func(c candidate) any { return c.ScheduledRunTime },
		func(a, b candidate) int { return a.ScheduledRunTime.Compare(b.ScheduledRunTime.Time) },
	}
	id := sortKey{
		"id", false,
		func(c candidate) any { return c.ID },
		func(a, b candidate) int { return cmp.Compare(a.ID, b.ID) },
	}
	s := sorting{"pick", []sortKey{priority, schedule, id}}
	if o.Order == job.BySchedule {
		s.keys = []sortKey{schedule, priority, id}
	}
	if index := o.Table().Order; index != "" {
		s.index += "_" + index
	}
	return s
}

// by is the order for ORDER BY.
func (s sorting) by() string {
	columns := make([]string, len(s.keys))
	for i, k := range s.keys {
		columns[i] = k.column
		if k.descending {
			columns[i] += " DESC"
		}
	}
	return strings.Join(columns, ", ")
}

// after is the condition for what comes after a job. It is spelled out, for MySQL walks no range of an index for
// (a, b, c) > (?, ?, ?).
func (s sorting) after(c candidate) (condition string, args []any) { return s.beyond(c, ">", "<") }

// before is the condition for what comes before a job.
func (s sorting) before(c candidate) (condition string, args []any) { return s.beyond(c, "<", ">") }

func (s sorting) beyond(c candidate, ascending, descending string) (condition string, args []any) {
	var terms []string
	equal := ""
	var equalArgs []any
	for _, k := range s.keys {
		sign := ascending
		if k.descending {
			sign = descending
		}
		terms = append(terms, "("+equal+k.column+" "+sign+" ?)")
		args = append(append(args, equalArgs...), k.value(c))
		equal += k.column + " = ? AND "
		equalArgs = append(equalArgs, k.value(c))
	}
	return "(" + strings.Join(terms, " OR ") + ")", args
}

func (s sorting) compare(a, b candidate) int {
	for _, k := range s.keys {
		if n := k.compare(a, b); n != 0 {
			if k.descending {
				return -n
			}
			return n
		}
	}
	return 0
}
