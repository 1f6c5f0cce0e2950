package engine

import (
	"database/sql/driver"
	"errors"
	"net"
	"slices"
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
	erInterrupted     = 1317 // what a node of a cluster is doing, because of another's commit
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
)

func isOf(err error, numbers ...uint16) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && slices.Contains(numbers, my.Number)
}

func codeOf(err error) int {
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code()
	}
	return 0
}

// IsDuplicate says whether err is the violation of a unique index.
func IsDuplicate(err error) bool {
	code := codeOf(err)
	return isOf(err, erDuplicateEntry) || code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
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
	return slices.Contains([]int{sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}, codeOf(err)&0xff)
}

// IsConflict says whether the database has refused something because of another process or transaction, or of the other
// nodes of its cluster, and may not refuse it again.
func IsConflict(err error) bool {
	return isBusy(err) || isOf(err, erLockWaitTimeout, erDeadlock, erInterrupted, erCheckRead, erWsrepNotReady, erFailedCommit, erLockNowait,
		erGroupUnheard, erGroupRefused)
}

// isReadOnly says whether the server writes nothing because it is a replica, or being backed up. After a failover another server
// answers at the same address, or this one writes again.
func isReadOnly(err error) bool {
	return isOf(err, erReadOnlyOption, erReadOnlySession, erReadOnlyMode)
}

// isNoNode says whether the server is a node of a cluster that has lost the others, or isn't one of them yet.
func isNoNode(err error) bool { return isOf(err, erWsrepNotReady) }

// IsLockTimeout says whether a statement has waited too long for a lock that another transaction holds. Nothing was committed.
func IsLockTimeout(err error) bool { return isOf(err, erLockWaitTimeout) }

// IsAnswer says whether err is what the engine itself says, and not that nothing was heard of it. It is none that a node of a
// cluster could not commit because it has lost the others, or was interrupted: the others may have committed what it had sent them.
func IsAnswer(err error) bool {
	_, lite := errors.AsType[*sqlite.Error](err)
	_, my := errors.AsType[*mysql.MySQLError](err)
	return lite || my && !isOf(err, erFailedCommit, erInterrupted, erGroupUnheard, erGroupRefused)
}

// IsDone says whether err means that a step of a migration was run before: what it makes is there, what it drops or moves is gone.
func IsDone(err error) bool {
	return isOf(err, erColumnExists, erIndexExists, erCheckExists, erNothingToDrop, erNoSuchColumn) || codeOf(err) == sqlite3.SQLITE_ERROR &&
		(strings.Contains(err.Error(), "duplicate column name") || strings.Contains(err.Error(), "no such column"))
}

// NoSuchTable says whether err means that a table is not there. For SQLite it is the only message of its code in the queries that ask.
func NoSuchTable(err error) bool {
	return isOf(err, erNoSuchTable) || codeOf(err) == sqlite3.SQLITE_ERROR
}

// Missing is what the engine says of a table or an index that is not there; "" if err means something else.
func Missing(err error) string {
	my, _ := errors.AsType[*mysql.MySQLError](err)
	lite, _ := errors.AsType[*sqlite.Error](err)
	switch {
	case isOf(err, erNoSuchTable, erNoSuchIndex):
		return my.Message
	case codeOf(err) == sqlite3.SQLITE_ERROR && strings.Contains(lite.Error(), "no such "):
		return lite.Error()
	}
	return ""
}
