package schema

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
)

var (
	// ErrConfig means that the database can't be used as configured; somebody must change something.
	ErrConfig = errors.New("database configuration")
	// ErrNotMigrated means that tables or the SQLite file are missing or outdated; hipq init fixes it. The wrapping
	// error says which.
	ErrNotMigrated = errors.New("the database is not initialised")
	// ErrAbsent means that nothing of hipq exists: no SQLite file, or no tables. It is an ErrNotMigrated.
	ErrAbsent = fmt.Errorf("%w", ErrNotMigrated)
	// ErrNewer means that a newer hipq made the tables.
	ErrNewer = errors.New("the tables are newer than this hipq")
	// ErrNoAnswer means that the database did not answer in time.
	ErrNoAnswer = errors.New("the database does not answer")
	// ErrHeld means that another transaction holds the needed locks.
	ErrHeld = errors.New("another transaction holds what this needs")
	// ErrTableTaken means that a table of this name belongs to another owner.
	ErrTableTaken = errors.New("the name is taken")
)

func newer(table string, version, known int) error {
	return fmt.Errorf("%w: table %s has version %d, and this hipq knows %d", ErrNewer, table, version, known)
}

// Trouble is the kind of remedy that a database error needs.
type Trouble = engine.Trouble

// The kinds of trouble.
const (
	// NoTrouble: not a database error.
	NoTrouble = engine.NoTrouble
	// TryLater: unreachable, busy, overloaded, starting, failing over.
	TryLater = engine.TryLater
	// Misconfigured: somebody must first change something: rights, names, the disk.
	Misconfigured = engine.Misconfigured
)

// IsFull reports whether err means that the database's disk is full.
func IsFull(err error) bool { return engine.IsFull(err) }

// Diagnose returns the kind of trouble of an error, and a remedy to print.
func Diagnose(err error) (Trouble, string) {
	switch {
	case errors.Is(err, ErrNotMigrated):
		return Misconfigured, "run hipq init"
	case errors.Is(err, ErrNoAnswer):
		return TryLater, "the database is busy, full, or can't be reached"
	case errors.Is(err, ErrHeld):
		_, found := engine.Diagnose(err)
		return TryLater, cmp.Or(found, "does an application keep one open?")
	case errors.Is(err, ErrNewer):
		return Misconfigured, "install the hipq that made them, or a newer one"
	case errors.Is(err, ErrConfig), errors.Is(err, ErrTableTaken), errors.Is(err, ErrName):
		return Misconfigured, ""
	}
	return engine.Diagnose(err)
}
