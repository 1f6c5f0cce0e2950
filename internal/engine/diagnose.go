package engine

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Trouble is the kind of remedy that a database error needs.
type Trouble int

// The kinds of trouble.
const (
	// NoTrouble means that it isn't a database error.
	NoTrouble Trouble = iota
	// TryLater means that the database is unreachable, busy, overloaded, starting or failing over.
	TryLater
	// Misconfigured means that somebody must change rights, names or files. A full disk is TryLater.
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
