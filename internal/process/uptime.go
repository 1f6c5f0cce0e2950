package process

import "sync/atomic"

// Suspended is added to Uptime, in nanoseconds. It is for tests, which can't suspend their host.
var Suspended atomic.Int64
