package schema

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrConfig means that the database as configured can't be used; somebody must change something.
	ErrConfig = errors.New("database configuration")
	// ErrNotMigrated means that tables (or the SQLite file) are missing or of an older layout; hipq init mends it.
	ErrNotMigrated = errors.New("the database is not initialised")
	// ErrNewer means that the tables were made by a newer hipq than this one.
	ErrNewer = errors.New("the tables are newer than this hipq")
	// ErrNoAnswer means that the database did not answer in the time that there was.
	ErrNoAnswer = errors.New("the database does not answer")
	// ErrHeld means that another transaction holds the locks that are needed.
	ErrHeld = errors.New("another transaction holds what this needs")
	// ErrTableTaken means that a table of the wanted name belongs to somebody else.
	ErrTableTaken = errors.New("table belongs to another")
)

// Numbers of MySQL's and MariaDB's errors.
const (
	erDuplicateEntry  = 1062
	erFailedCommit    = 1180
	erLockWaitTimeout = 1205
	erDeadlock        = 1213
	erReadOnlyOption  = 1290
	erReadOnlySession = 1792
	erReadOnlyMode    = 1836
	erInterrupted     = 1317 // what a node of a cluster is doing, for the sake of another's commit
	erCheckRead       = 1020
	erWsrepNotReady   = 1047
	erLockNowait      = 3572
	erNoSuchTable     = 1146
	erNoSuchColumn    = 1054
	erNoSuchIndex     = 1176
	erColumnExists    = 1060
	erIndexExists     = 1061
	erNothingToDrop   = 1091
	erCheckExists     = 3822
	erCheckMySQL      = 3819
	erCheckMariaDB    = 4025
)

// IsDuplicate says whether err is the violation of a unique index.
func IsDuplicate(err error) bool {
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return my.Number == erDuplicateEntry
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	return false
}

// IsRefused says whether err is the violation of a table's CHECK.
func IsRefused(err error) bool {
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return my.Number == erCheckMySQL || my.Number == erCheckMariaDB
	}
	lite, ok := errors.AsType[*sqlite.Error](err)
	return ok && lite.Code() == sqlite3.SQLITE_CONSTRAINT_CHECK
}

// Retryable says whether the same transaction may succeed when it is repeated as a whole.
func Retryable(err error) bool {
	if isConflict(err) || isReadOnly(err) {
		return true
	}
	// a server that is starting again refuses connections for a moment
	_, unreachable := errors.AsType[*net.OpError](err)
	return unreachable || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)
}

// isBusy says whether another process holds SQLite's file. PROTOCOL is what a reader has then: somebody has held the log for ten
// seconds, a process that was stopped perhaps.
func isBusy(err error) bool {
	lite, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch lite.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// isConflict says whether the database has refused something for the sake of another process or transaction, or of the other
// nodes of its cluster, and may not refuse it again.
func isConflict(err error) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return isBusy(err)
	}
	switch my.Number {
	case erLockWaitTimeout, erDeadlock, erInterrupted, erCheckRead, erWsrepNotReady, erFailedCommit, erLockNowait:
		return true
	}
	return false
}

// isReadOnly says whether the server writes nothing, for it is a replica, or being backed up. After a failover another server
// answers at the same address, or this one writes again.
func isReadOnly(err error) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (my.Number == erReadOnlyOption || my.Number == erReadOnlySession || my.Number == erReadOnlyMode)
}

// IsLockTimeout says whether a statement has waited too long for a lock that another transaction holds. Nothing was committed.
func IsLockTimeout(err error) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && my.Number == erLockWaitTimeout
}

// IsAnswer says whether err is what the engine itself says, and not that nothing was heard of it. It is none that a node of a
// cluster could not commit, for it has lost the others, or was interrupted.
func IsAnswer(err error) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	_, lite := errors.AsType[*sqlite.Error](err)
	return ok && my.Number != erFailedCommit && my.Number != erInterrupted || lite
}

// isDone says whether err means that a step of a migration was run before.
func isDone(err error) bool {
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code() == sqlite3.SQLITE_ERROR && strings.Contains(lite.Error(), "duplicate column name")
	}
	my, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (my.Number == erColumnExists || my.Number == erIndexExists || my.Number == erCheckExists || my.Number == erNothingToDrop)
}

// noSuchTable says whether err means that a table is not there.
func noSuchTable(err error) bool {
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return my.Number == erNoSuchTable
	}
	lite, ok := errors.AsType[*sqlite.Error](err)
	return ok && lite.Code() == sqlite3.SQLITE_ERROR // the only message of this code in the queries that ask
}

// Lacks says whether err means that the table of a queue is not there, or lacks an index.
func (db *DB) Lacks(err error, queue string) bool {
	var text string
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok && (my.Number == erNoSuchTable || my.Number == erNoSuchIndex) {
		text = my.Message
	} else if lite, ok := errors.AsType[*sqlite.Error](err); ok && lite.Code() == sqlite3.SQLITE_ERROR && strings.Contains(lite.Error(), "no such ") {
		text = lite.Error()
	}
	table, err := db.CheckQueue(queue)
	// in all of these the name stands alone, or before the dollar of an index
	names := strings.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune(letters+"_0123456789", r) })
	return err == nil && slices.Contains(names, table)
}

// Trouble is what kind of remedy an error of the database wants.
type Trouble int

// The kinds of trouble.
const (
	// NoTrouble: not an error of the database.
	NoTrouble Trouble = iota
	// TryLater: unreachable, busy, overloaded, starting, failing over.
	TryLater
	// Misconfigured: somebody must change something first: rights, names, the disk.
	Misconfigured
)

// Diagnose tells the kind of trouble an error stands for, with a remedy to print.
func Diagnose(err error) (Trouble, string) {
	switch {
	case errors.Is(err, ErrNotMigrated):
		return Misconfigured, "run hipq init"
	case errors.Is(err, mysql.ErrNoTLS), errors.As(err, new(*tls.CertificateVerificationError)):
		return Misconfigured, "check database.tls, and the option tls of database.dsn"
	case errors.Is(err, ErrDriver):
		return TryLater, "is it a MySQL or MariaDB server that database.dsn leads to, and nothing in between?"
	case errors.Is(err, ErrNoAnswer):
		return TryLater, "the database is busy, full, or can't be reached"
	case errors.Is(err, ErrHeld):
		return TryLater, "does an application keep one open?"
	case errors.Is(err, ErrNewer):
		return Misconfigured, "install the hipq that made them, or a newer one"
	case errors.Is(err, ErrConfig), errors.Is(err, ErrTableTaken), errors.Is(err, ErrName):
		return Misconfigured, ""
	}
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return diagnoseMySQL(my)
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return diagnoseSQLite(lite.Code(), lite.Error())
	}
	if Retryable(err) || errors.Is(err, io.ErrUnexpectedEOF) {
		return TryLater, "the database can't be reached: is the server up, is database.dsn right?"
	}
	return NoTrouble, ""
}

func diagnoseMySQL(err *mysql.MySQLError) (Trouble, string) {
	switch err.Number {
	case 1044, 1045, 1142, 1143, 1227, 1698:
		return Misconfigured, "check the user, the password and the grants of database.dsn"
	case 1049:
		return Misconfigured, "create the database first: CREATE DATABASE … CHARACTER SET utf8mb4"
	case erNoSuchTable, erNoSuchColumn, erNoSuchIndex:
		return Misconfigured, "run hipq init"
	case 167, 1467:
		return Misconfigured, "somebody has inserted a row with the highest id there is: docs/schema.md has the remedy"
	case 1021, 1114, 3675:
		return TryLater, "the server's disk or table space is full"
	case 3, 1026, 1030: // an error while writing, or of the storage engine, whose number is in the text
		for _, sign := range []string{"No space left", "Errcode: 28", "errno 28", "error 28"} {
			if strings.Contains(err.Message, sign) {
				return TryLater, "the server's disk is full"
			}
		}
	case 1040, 1203, 1226:
		return TryLater, "the server has too many connections"
	case erLockWaitTimeout, erLockNowait:
		return TryLater, "another transaction holds what this needs: does an application keep one open?"
	case erReadOnlyOption, erReadOnlySession, erReadOnlyMode:
		return TryLater, "the server is read-only: is it a replica, is database.dsn right?"
	case 1053, 1077, 1079, 1080, 1927:
		return TryLater, "the server is shutting down"
	}
	if Retryable(err) {
		return TryLater, "the database is busy"
	}
	return NoTrouble, ""
}

func diagnoseSQLite(code int, text string) (Trouble, string) {
	switch code & 0xff {
	case sqlite3.SQLITE_ERROR:
		if strings.Contains(text, "no such ") { // table, column, or index
			return Misconfigured, "run hipq init"
		}
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return TryLater, "another process holds the database file"
	case sqlite3.SQLITE_FULL:
		return TryLater, "the disk is full"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return Misconfigured, "check that this user may write the database file and its folder"
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return Misconfigured, "the file is not a healthy SQLite database: check database.path"
	case sqlite3.SQLITE_IOERR:
		// a full disk is one where a file can't grow that is written to the end, and for readers too, who write beside the file
		return TryLater, "the disk may be full, or it reports an error"
	}
	return NoTrouble, ""
}

// jitter spreads d over its second half, so that those who failed together don't come back together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep waits for d; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
