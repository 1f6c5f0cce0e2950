package engine

import (
	"database/sql/driver"
	"errors"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
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
	erGroupUnheard    = 3100 // a member of a group, at a commit: it has lost the others
	erGroupRefused    = 3101 // or another's commit was first
	erCheckRead       = 1020
	erWsrepNotReady   = 1047
	erLockNowait      = 3572
	erTooSlowMariaDB  = 1969 // a statement took longer than max_statement_time
	erTooSlowMySQL    = 3024 // a SELECT took longer than max_execution_time
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

// Retryable says whether the same transaction may succeed when it is repeated as a whole.
func Retryable(err error) bool {
	if IsConflict(err) || isReadOnly(err) {
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

// IsConflict says whether the database has refused something for the sake of another process or transaction, or of the other
// nodes of its cluster, and may not refuse it again.
func IsConflict(err error) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return isBusy(err)
	}
	switch my.Number {
	case erLockWaitTimeout, erDeadlock, erInterrupted, erCheckRead, erWsrepNotReady, erFailedCommit, erLockNowait, erGroupUnheard, erGroupRefused:
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

// isNoNode says whether the server is a node of a cluster that has lost the others, or isn't one of them yet.
func isNoNode(err error) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && my.Number == erWsrepNotReady
}

// IsLockTimeout says whether a statement has waited too long for a lock that another transaction holds. Nothing was committed.
func IsLockTimeout(err error) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && my.Number == erLockWaitTimeout
}

// IsAnswer says whether err is what the engine itself says, and not that nothing was heard of it. It is none that a node of a
// cluster could not commit, for it has lost the others, or was interrupted: the others may have committed what it had sent them.
func IsAnswer(err error) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		_, lite := errors.AsType[*sqlite.Error](err)
		return lite
	}
	switch my.Number {
	case erFailedCommit, erInterrupted, erGroupUnheard, erGroupRefused:
		return false
	}
	return true
}

// IsDone says whether err means that a step of a migration was run before: what it makes is there, what it drops or moves is gone.
func IsDone(err error) bool {
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code() == sqlite3.SQLITE_ERROR &&
			(strings.Contains(lite.Error(), "duplicate column name") || strings.Contains(lite.Error(), "no such column"))
	}
	my, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (my.Number == erColumnExists || my.Number == erIndexExists || my.Number == erCheckExists || my.Number == erNothingToDrop ||
		my.Number == erNoSuchColumn)
}

// NoSuchTable says whether err means that a table is not there.
func NoSuchTable(err error) bool {
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return my.Number == erNoSuchTable
	}
	lite, ok := errors.AsType[*sqlite.Error](err)
	return ok && lite.Code() == sqlite3.SQLITE_ERROR // the only message of this code in the queries that ask
}

// Missing is what the engine says of a table or an index that is not there; "" if err means something else.
func Missing(err error) string {
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok && (my.Number == erNoSuchTable || my.Number == erNoSuchIndex) {
		return my.Message
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok && lite.Code() == sqlite3.SQLITE_ERROR && strings.Contains(lite.Error(), "no such ") {
		return lite.Error()
	}
	return ""
}
