package engine

import (
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
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

// Trouble is the kind of remedy that a database error needs.
type Trouble int

// The kinds of trouble: see package schema.
const (
	NoTrouble Trouble = iota
	TryLater
	Misconfigured
)

// Diagnose returns the kind of trouble that an error stands for, and a remedy to print.
func Diagnose(err error) (Trouble, string) {
	switch {
	case errors.Is(err, mysql.ErrNoTLS), errors.As(err, new(*tls.CertificateVerificationError)):
		return Misconfigured, "check database.tls, and the option tls of database.dsn"
	case errors.Is(err, ErrBehind):
		return TryLater, "is the node cut off from the others, or does a backup block it?"
	case errors.Is(err, ErrDriver):
		return TryLater, "does database.dsn lead to a MySQL or MariaDB server, with nothing in between?"
	}
	my, ok := errors.AsType[*mysql.MySQLError](err)
	switch {
	case ok && IsFull(err):
		return TryLater, serverFull
	case ok:
		return diagnoseMySQL(my)
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return diagnoseSQLite(lite.Code(), lite.Error())
	}
	if Retryable(err) || errors.Is(err, io.ErrUnexpectedEOF) {
		return TryLater, "the database can't be reached: is the server down, or database.dsn wrong?"
	}
	return NoTrouble, ""
}

const highestID = "a row was inserted with the highest id possible: docs/reference/schema.md has the remedy"

// IsFull says whether err means that the database's disk is full.
func IsFull(err error) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	switch {
	case !ok: // IOERR, because SQLite's readers write beside the file and can't say why that fails
		return slices.Contains([]int{sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}, codeOf(err)&0xff)
	case slices.Contains([]uint16{1021, 1114, 3675}, my.Number):
		return true
	}
	// A write error, or one of the storage engine: its number is in the text.
	return slices.Contains([]uint16{3, 1026, 1030}, my.Number) && slices.ContainsFunc(noSpace, func(sign string) bool { return strings.Contains(my.Message, sign) })
}

var noSpace = []string{"No space left", "Errcode: 28", "errno 28", "error 28"}

// serverFull is the remedy for a full server. Deleting rows needs some room too.
const serverFull = "the disk or the table space of the server is full: make room where SELECT @@datadir says, then hipq purge --older-than 3d"

// tableDenied finds the user, the database (only MariaDB names it) and the table in the server's message.
var tableDenied = regexp.MustCompile("^(?:SELECT|INSERT|UPDATE|DELETE)[A-Z, ]* command denied to user ('[^']*')@.* table (?:'|(`[^`]*`\\.)?`)([^'`]+)['`]$")

const checkUser = "check the user, the password and the grants of database.dsn; hipq init --print-grants prints the grants that init and other commands need"

func diagnoseMySQL(err *mysql.MySQLError) (Trouble, string) {
	switch err.Number {
	case erTableDenied, erColumnDenied:
		if lacks := tableDenied.FindStringSubmatch(err.Message); lacks != nil {
			return Misconfigured, fmt.Sprintf("if hipq init has made the table: GRANT SELECT, INSERT, UPDATE, DELETE ON %s%s TO %s@'%%'; hipq doctor finds all rights that this user lacks",
				lacks[2], lacks[3], lacks[1])
		}
		return Misconfigured, checkUser
	case 1227: // a privilege of the server
		return Misconfigured, checkUser
	case 1049:
		return Misconfigured, "create the database first: CREATE DATABASE … CHARACTER SET utf8mb4"
	case erNoSuchTable, erNoSuchColumn, erNoSuchIndex:
		return Misconfigured, "run hipq init"
	case 167:
		return Misconfigured, highestID
	case 1467: // MariaDB reports it for the lock, MySQL 8.0 for the highest id
		return TryLater, "another statement holds the table's AUTO-INC lock, as INSERT … SELECT does unless the server runs with innodb_autoinc_lock_mode=2; or " + highestID
	case erDuplicateEntry:
		if strings.HasSuffix(err.Message, "PRIMARY'") { // MySQL gives the highest id to the next row again
			return Misconfigured, highestID
		}
	case erLockWaitTimeout, erLockNowait:
		return TryLater, "another transaction or a table lock holds what this needs: does an application keep a transaction open, or alter the table?"
	case erTooSlowMariaDB, erTooSlowMySQL:
		return TryLater, "a statement took longer than the server's max_statement_time (MySQL: max_execution_time) allows: is the server busy, or the limit too short?"
	case erReadOnlyOption, erReadOnlySession, erReadOnlyMode:
		return TryLater, "the server is read-only: is it a replica, or database.dsn wrong?"
	}
	switch {
	case IsRefused(err):
		return Misconfigured, checkUser
	case isOf(err, crowded...):
		return TryLater, "the server has too many connections"
	case isOf(err, closing...):
		return TryLater, "the server is shutting down"
	case Retryable(err):
		return TryLater, "the database is busy"
	}
	return NoTrouble, ""
}

const mayNotWrite = "check that this user may write the database file and its folder"

func diagnoseSQLite(code int, text string) (Trouble, string) {
	switch code & 0xff {
	case sqlite3.SQLITE_ERROR:
		if strings.Contains(text, "no such ") { // table, column or index
			return Misconfigured, "run hipq init"
		}
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return TryLater, "another process holds the database file"
	case sqlite3.SQLITE_FULL:
		return TryLater, "the disk is full: free disk space outside the database, then hipq purge --older-than 3d"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return Misconfigured, mayNotWrite
	case sqlite3.SQLITE_CANTOPEN: // SQLite doesn't say why
		f, err := os.Open(os.DevNull)
		if err != nil {
			return TryLater, "the process can't open more files: raise its limit, which ulimit -n shows"
		}
		_ = f.Close()
		return Misconfigured, mayNotWrite + ", and that the limit of open files is high enough (ulimit -n)"
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return Misconfigured, "the file is not a healthy SQLite database: check database.path"
	case sqlite3.SQLITE_IOERR:
		return TryLater, "the disk may be full, or it reports an error"
	}
	return NoTrouble, ""
}
