package process

import "sync/atomic"

// Suspended is added to Uptime, in nanoseconds: tests can't suspend their host.
var Suspended atomic.Int64
