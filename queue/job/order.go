package job

// Order is what decides first which of two due jobs is locked first.
type Order string

// The orders. The empty one is ByPriority.
const (
	// ByPriority locks by priority, then scheduled run time, then id.
	ByPriority Order = "priority"
	// BySchedule locks by scheduled run time, then priority, then id.
	BySchedule Order = "schedule"
)

// PriorityOrder says which of two priorities comes first.
type PriorityOrder string

// The orders of priorities. The empty one is LowestFirst.
const (
	LowestFirst  PriorityOrder = "lowest"
	HighestFirst PriorityOrder = "highest"
)
