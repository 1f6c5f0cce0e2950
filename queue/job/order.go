package job

// Order is what decides which of two due jobs is started first.
type Order string

// The orders. The empty one is ByPriority.
const (
	// ByPriority is by priority, then scheduled run time, then id.
	ByPriority Order = "priority"
	// BySchedule is by scheduled run time, then id, whatever the priorities.
	BySchedule Order = "schedule"
)

// PriorityOrder says which of two priorities comes first, where the order is ByPriority.
type PriorityOrder string

// The orders of priorities. The empty one is LowestFirst.
const (
	LowestFirst  PriorityOrder = "lowest"
	HighestFirst PriorityOrder = "highest"
)
