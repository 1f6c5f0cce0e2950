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

// vfs is SQLite's usual VFS with another clock. SQLite asks it for the time in all statements on files opened through it, so
// neither hipq nor the application notices.
type vfs struct {
	sqlite3.Tsqlite3_vfs
	// now is the time in SQLite's milliseconds.
	now atomic.Int64
}

// usual is SQLite's usual VFS, copied once. It heads SQLite's list of VFSs, which changes with each addition.
var usual = sync.OnceValues(func() (sqlite3.Tsqlite3_vfs, error) {
	tls := libc.NewTLS()
	defer tls.Close()
	found := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if found == 0 {
		return sqlite3.Tsqlite3_vfs{}, errors.New("SQLite has no VFS")
	}
	return *at[sqlite3.Tsqlite3_vfs](found), nil
})

// newClock makes a clock and registers its VFS. The VFS, of some 200 bytes, is never freed, because files may stay open after
// the test.
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

// currentTimePointer is currentTime in the form that the translated SQLite calls.
func currentTimePointer() uintptr {
	f := currentTime
	return *(*uintptr)(unsafe.Pointer(&f))
}

// at returns what lies at an address of SQLite's memory, which Go's garbage collector doesn't manage.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// Clock is the clock of an instance's database, for hipq and for SQL on App. It changes only by Set and Advance, and has
// SQLite's resolution of 1 ms. It is safe for concurrent use. A handler may set it to simulate a long run.
type Clock struct {
	name string
	// now is in SQLite's milliseconds, in the VFS.
	now *atomic.Int64
}

// beforeUnix is SQLite's epoch, in milliseconds before 1970.
const beforeUnix = 210866760000000

// Now returns the time in UTC.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.now.Load() - beforeUnix).UTC() }

// Set sets the clock. If you put it back, past events keep their times.
func (c *Clock) Set(t time.Time) { c.now.Store(t.UnixMilli() + beforeUnix) }

// Advance puts the clock forward by d.
func (c *Clock) Advance(d time.Duration) { c.now.Add(d.Milliseconds()) }
