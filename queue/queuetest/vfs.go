package queuetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// vfs is one of SQLite's ways to the system, like the usual one but for the clock. SQLite asks it for the time, for whatever
// statement on whatever connection has opened the file through it: so nothing of hipq's, nor of an application's, knows that
// its clock isn't the system's.
type vfs struct {
	sqlite3.Tsqlite3_vfs
	// now is the time in milliseconds, as SQLite counts.
	now atomic.Int64
}

// usual is SQLite's usual VFS, copied once: it is the head of SQLite's list of them, which changes with each that is added.
var usual = sync.OnceValues(func() (sqlite3.Tsqlite3_vfs, error) {
	tls := libc.NewTLS()
	defer tls.Close()
	found := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if found == 0 {
		return sqlite3.Tsqlite3_vfs{}, errors.New("SQLite has no VFS")
	}
	return *at[sqlite3.Tsqlite3_vfs](found), nil
})

// newClock makes a clock, and tells SQLite of its VFS. That is never freed, because a file that was opened by it may be
// open for longer than the test; it is some 200 bytes.
func newClock(now time.Time) (*Clock, error) {
	base, err := usual()
	if err != nil {
		return nil, err
	}
	tls := libc.NewTLS()
	defer tls.Close()
	mine := libc.Xcalloc(tls, 1, types.Size_t(unsafe.Sizeof(vfs{})))
	if mine == 0 {
		return nil, errors.New("SQLite has no memory for a VFS")
	}
	name := fmt.Sprintf("queuetest-%x", mine)
	zName, err := libc.CString(name)
	if err != nil {
		return nil, err
	}
	v := at[vfs](mine)
	v.Tsqlite3_vfs = base
	v.FpNext, v.FzName, v.FxCurrentTimeInt64 = 0, zName, currentTimePointer()
	c := &Clock{name: name, now: &v.now}
	c.Set(now)
	if code := sqlite3.Xsqlite3_vfs_register(tls, mine, 0); code != sqlite3.SQLITE_OK {
		return nil, fmt.Errorf("register the clock's VFS: SQLite's error %d", code)
	}
	return c, nil
}

// currentTime is the VFS's xCurrentTimeInt64.
func currentTime(_ *libc.TLS, of, result uintptr) int32 {
	*at[int64](result) = at[vfs](of).now.Load()
	return sqlite3.SQLITE_OK
}

// currentTimePointer is currentTime as SQLite, translated to Go, calls it.
func currentTimePointer() uintptr {
	f := currentTime
	return *(*uintptr)(unsafe.Pointer(&f))
}

// at is what lies at an address of SQLite's memory, which Go's garbage collector knows nothing of.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// Clock is the clock of an instance's database: what hipq goes by, and what SQL on the instance's App sees as the time. It
// stands still but for Set and Advance, and has SQLite's resolution, a millisecond. It is safe for concurrent use, and may be
// set by a handler, as if that had taken so long.
type Clock struct {
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
