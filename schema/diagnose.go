package schema

import (
	"errors"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
)

var (
	// ErrConfig means that the database as configured can't be used; somebody must change something.
	ErrConfig = errors.New("database configuration")
	// ErrNotMigrated means that tables (or the SQLite file) are missing or of an older layout; hipq init mends it. The errors that
	// are it say which.
	ErrNotMigrated = errors.New("the database is not initialised")
	// ErrAbsent means that there is nothing of hipq: no SQLite file, or no tables at all. It is an ErrNotMigrated.
	ErrAbsent = fmt.Errorf("%w", ErrNotMigrated)
	// ErrNewer means that the tables were made by a newer hipq than this one.
	ErrNewer = errors.New("the tables are newer than this hipq")
	// ErrNoAnswer means that the database did not answer in the time that there was.
	ErrNoAnswer = errors.New("the database does not answer")
	// ErrHeld means that another transaction holds the locks that are needed.
	ErrHeld = errors.New("another transaction holds what this needs")
	// ErrTableTaken means that a table of the wanted name belongs to somebody else.
	ErrTableTaken = errors.New("table belongs to another")
)

// unmigrated is what hipq init mends, where the database as a whole is initialised: it is ErrNotMigrated, in words of its own.
type unmigrated string

func (e unmigrated) Error() string { return string(e) }

func (e unmigrated) Is(target error) bool { return target == ErrNotMigrated }

func unmigratedf(format string, args ...any) error { return unmigrated(fmt.Sprintf(format, args...)) }

func newer(table string, version, known int) error {
	return fmt.Errorf("%w: table %s has version %d, known is %d", ErrNewer, table, version, known)
}

// Trouble is what kind of remedy an error of the database wants.
type Trouble = engine.Trouble

// The kinds of trouble.
const (
	// NoTrouble: not an error of the database.
	NoTrouble = engine.NoTrouble
	// TryLater: unreachable, busy, overloaded, starting, failing over.
	TryLater = engine.TryLater
	// Misconfigured: rights, names or files must be changed first.
	Misconfigured = engine.Misconfigured
)

// IsFull says whether err means that the database has no room left on its disk.
func IsFull(err error) bool { return engine.IsFull(err) }

// Diagnose tells the kind of trouble an error stands for, with a remedy to print.
func Diagnose(err error) (Trouble, string) {
	switch {
	case errors.Is(err, ErrNotMigrated):
		return Misconfigured, "run hipq init"
	case errors.Is(err, ErrNoAnswer):
		return TryLater, "the database is busy, full, or can't be reached"
	case errors.Is(err, ErrHeld):
		return TryLater, "does an application keep one open?"
	case errors.Is(err, ErrNewer):
		return Misconfigured, "install the hipq that made them, or a newer one"
	case errors.Is(err, ErrConfig), errors.Is(err, ErrTableTaken), errors.Is(err, ErrName):
		return Misconfigured, ""
	}
	return engine.Diagnose(err)
}
