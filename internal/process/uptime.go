package process

import "sync/atomic"

// Suspended, in nanoseconds, is added to Uptime, for tests, which can't suspend their host.
var Suspended atomic.Int64
