package engine

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Error numbers of MySQL and MariaDB.
const (
	erDuplicateEntry  = 1062
	erPacketTooLarge  = 1153
	erFailedCommit    = 1180
	erLockWaitTimeout = 1205
	erDeadlock        = 1213
	erReadOnlyOption  = 1290
	erReadOnlySession = 1792
	erReadOnlyMode    = 1836
	erInterrupted     = 1317 // a cluster node interrupts a statement for another's commit
	erGroupUnheard    = 3100 // a group member lost the others during a commit
	erGroupRefused    = 3101 // another member's commit was first
	erCheckRead       = 1020
	erWsrepNotReady   = 1047
	erLockNowait      = 3572
	erTooSlowMariaDB  = 1969 // a statement exceeded max_statement_time
	erTooSlowMySQL    = 3024 // a SELECT exceeded max_execution_time
	erTableDenied     = 1142
	erColumnDenied    = 1143
	erNoSuchTable     = 1146
	erNoSuchColumn    = 1054
	erNoSuchIndex     = 1176
	erColumnExists    = 1060
	erIndexExists     = 1061
	erNothingToDrop   = 1091
	erCheckExists     = 3822

	erReferenced       = 1451
	erReferencedUnseen = 1217 // by a table that the user can't see
)

// stateSignal is the SQLSTATE of triggers that refuse something; their error number is 1644, unless they choose it.
const stateSignal = "45000"

// crowded are the error numbers of a server without a connection to spare, closing those of one that shuts down.
var crowded, closing = []uint16{1040, 1203, 1226}, []uint16{1053, 1077, 1079, 1080, 1927}

// refused are the error numbers of a server that lets this user no longer in: a password that was changed, has expired or was
// never right, an account that is locked or gone, a host or a database that isn't allowed.
var refused = []uint16{1044, 1045, 1130, 1396, 1698, 1820, 1862, 3118, 3955, 4151}

// IsRefused says whether the server doesn't let this user in. When the password is rotated, that is over in a moment.
func IsRefused(err error) bool { return isOf(err, refused...) }

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

// IsDuplicate says whether err is a violation of a unique index.
func IsDuplicate(err error) bool {
	code := codeOf(err)
	return isOf(err, erDuplicateEntry) || code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// IsKept says whether a foreign key, or an application's trigger, keeps a row from being deleted.
func IsKept(err error) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (isOf(err, erReferenced, erReferencedUnseen) || string(my.SQLState[:]) == stateSignal) ||
		slices.Contains([]int{sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, sqlite3.SQLITE_CONSTRAINT_TRIGGER}, codeOf(err))
}

// ErrTooLarge means that a statement exceeds Dialect.Packet, so it wasn't sent.
var ErrTooLarge = errors.New("the statement is too large for the server")

// IsTooLarge says whether a statement was too large for the server. Its limit may be lower now than when it was read.
func IsTooLarge(err error) bool {
	return errors.Is(err, ErrTooLarge) || errors.Is(err, mysql.ErrPktTooLarge) || isOf(err, erPacketTooLarge)
}

// Retryable says whether the transaction may succeed if it is repeated as a whole.
func Retryable(err error) bool {
	return IsConflict(err) || isReadOnly(err) || isLost(err)
}

// isLost says whether there is no connection. A restarting server refuses connections for a moment.
func isLost(err error) bool {
	_, refused := errors.AsType[*net.OpError](err)
	return refused || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)
}

// IsUnreachable says whether the database can't be reached, has no connection to spare, is shutting down, or has lost its
// cluster.
func IsUnreachable(err error) bool {
	return isLost(err) || isNoNode(err) || errors.Is(err, io.ErrUnexpectedEOF) || isOf(err, crowded...) || isOf(err, closing...) ||
		isOf(err, erGroupUnheard)
}

// isBusy says whether another process locks SQLite's file. Readers get PROTOCOL if a process, perhaps a stopped one, has held
// the log for 10 s.
func isBusy(err error) bool {
	return slices.Contains([]int{sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}, codeOf(err)&0xff)
}

// IsConflict says whether the database refused something because of another process, transaction or cluster node, and may
// accept it later.
func IsConflict(err error) bool {
	return isBusy(err) || isOf(err, erLockWaitTimeout, erDeadlock, erInterrupted, erCheckRead, erWsrepNotReady, erFailedCommit, erLockNowait,
		erGroupUnheard, erGroupRefused)
}

// isReadOnly says whether the server refuses writes, because it is a replica or being backed up. After a failover, another
// server answers at the same address, or this one accepts writes again.
func isReadOnly(err error) bool {
	return isOf(err, erReadOnlyOption, erReadOnlySession, erReadOnlyMode)
}

// isNoNode says whether the server is a cluster node that has lost the others or hasn't joined yet.
func isNoNode(err error) bool { return isOf(err, erWsrepNotReady) }

// IsHeld says whether a transaction waited too long for another's locks.
func IsHeld(err error) bool { return isBusy(err) || IsLockTimeout(err) }

// IsLockTimeout says whether a statement waited too long for another transaction's lock. Nothing was committed.
func IsLockTimeout(err error) bool { return isOf(err, erLockWaitTimeout) }

// IsAnswer says whether err is the engine's own answer, rather than silence. A cluster node's failed or interrupted commit
// isn't one: the other nodes may have committed what it sent them.
func IsAnswer(err error) bool {
	_, lite := errors.AsType[*sqlite.Error](err)
	_, my := errors.AsType[*mysql.MySQLError](err)
	return lite || my && !isOf(err, erFailedCommit, erInterrupted, erGroupUnheard, erGroupRefused)
}

// IsDone says whether err means that a migration step was run before: what it creates exists, or what it drops or moves is
// gone.
func IsDone(err error) bool {
	return isOf(err, erColumnExists, erIndexExists, erCheckExists, erNothingToDrop, erNoSuchColumn) || codeOf(err) == sqlite3.SQLITE_ERROR &&
		(strings.Contains(err.Error(), "duplicate column name") || strings.Contains(err.Error(), "no such column"))
}

// IsDenied says whether the user lacks a right to a table, which may also be missing.
func IsDenied(err error) bool { return isOf(err, erTableDenied, erColumnDenied) }

// Missing is the engine's message about a missing table or index; "" if err means something else.
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
