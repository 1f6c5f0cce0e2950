package queuetest

import (
	"sync/atomic"
	"time"
)

// Clock is the clock of an instance's database: what hipq goes by, and what SQL on the instance's App sees as the time. It
// stands still but for Set and Advance, and has SQLite's resolution, a millisecond. It is safe for concurrent use, and may be
// set by a handler, as if that had taken so long.
type Clock struct {
	// name is that of the VFS of SQLite which has this clock.
	name string
	// now is in milliseconds, as SQLite has it: in the VFS.
	now *atomic.Int64
}

// beforeUnix is what SQLite counts from, in milliseconds before 1970.
const beforeUnix = 210866760000000

// Now is what the clock shows, in UTC.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.now.Load() - beforeUnix).UTC() }

// Set sets the clock. What has happened keeps its time if it is put back.
func (c *Clock) Set(t time.Time) { c.now.Store(t.UnixMilli() + beforeUnix) }

// Advance puts the clock forward by d.
func (c *Clock) Advance(d time.Duration) { c.now.Add(d.Milliseconds()) }
