package engine

import (
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	sqlite3 "modernc.org/sqlite/lib"
)

// A full disk has many error numbers. The message names it.
func TestDiagnoseAFullDisk(t *testing.T) {
	for _, err := range []*mysql.MySQLError{
		{Number: 1114, Message: "The table 'shop_emails' is full"},
		{Number: 1021, Message: `Disk full (/tmp/#sql); waiting for someone to free some space... (errno: 28 "No space left on device")`},
		{Number: 3, Message: `Error writing file '/tmp/ML5' (Errcode: 28 "No space left on device")`},
		{Number: 1026, Message: `Error writing file './bin.000001' (errno: 28 - No space left on device)`},
		{Number: 1030, Message: `Got error 28 from storage engine`},
	} {
		if trouble, hint := Diagnose(err); trouble != TryLater || !strings.Contains(hint, "full") {
			t.Errorf("%v: %v, %s", err, trouble, hint)
		}
	}
	if trouble, _ := Diagnose(&mysql.MySQLError{Number: 1030, Message: "Got error 168 from storage engine"}); trouble != NoTrouble {
		t.Errorf("another error of a storage engine is %v", trouble)
	}
	// The last is what modernc reports, also for readers.
	for _, code := range []int{sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE} {
		if trouble, hint := diagnoseSQLite(code, "disk I/O error"); trouble != TryLater || !strings.Contains(hint, "full") {
			t.Errorf("%d: %v, %s", code, trouble, hint)
		}
	}
}

// The highest id has no successor: each server reports that in its own way.
func TestDiagnoseTheHighestID(t *testing.T) {
	for _, err := range []*mysql.MySQLError{
		{Number: 167, Message: "Out of range value for column 'id' at row 1"},                          // MariaDB
		{Number: 1062, Message: "Duplicate entry '9223372036854775807' for key 'shop_emails.PRIMARY'"}, // MySQL 9
	} {
		if trouble, hint := Diagnose(err); trouble != Misconfigured || !strings.Contains(hint, "highest id") {
			t.Errorf("%v: %v, %s", err, trouble, hint)
		}
	}
	lock := &mysql.MySQLError{Number: 1467, Message: "Failed to read auto-increment value from storage engine"}
	if trouble, hint := Diagnose(lock); trouble != TryLater || !strings.Contains(hint, "AUTO-INC") || !strings.Contains(hint, "highest id") {
		t.Errorf("the lock of an INSERT … SELECT is %v, %s", trouble, hint)
	}
	if trouble, _ := Diagnose(&mysql.MySQLError{Number: 1062, Message: "Duplicate entry 'send-a' for key 'shop_emails.live_key'"}); trouble != NoTrouble {
		t.Errorf("another's key is %v", trouble)
	}
}

// A refusal by a cluster, at a commit or before, is TryLater: the transaction may be repeated as a whole.
func TestRefusedByTheCluster(t *testing.T) {
	// whether the other nodes may have committed it nevertheless
	for number, unheard := range map[uint16]bool{1047: false, 1180: true, 1205: false, 1213: false, 1317: true, 3100: true, 3101: true} {
		err := error(&mysql.MySQLError{Number: number})
		if trouble, _ := Diagnose(err); !Retryable(err) || trouble != TryLater {
			t.Errorf("%d is for good", number)
		}
		if IsAnswer(err) == unheard {
			t.Errorf("%d is an answer: %t", number, !unheard)
		}
		if lost := number == 1047 || number == 3100; IsUnreachable(err) != lost {
			t.Errorf("%d means that the cluster is lost: %t", number, !lost)
		}
	}
}

// The message names a read-only server, which may accept writes later.
func TestDiagnoseAReadOnlyServer(t *testing.T) {
	for _, number := range []uint16{1290, 1792, 1836} {
		err := error(&mysql.MySQLError{Number: number})
		if trouble, hint := Diagnose(err); !Retryable(err) || trouble != TryLater || !strings.Contains(hint, "read-only") {
			t.Errorf("%d: %v, %s", number, trouble, hint)
		}
	}
}

// A statement that exceeds the server's time limit is TryLater, but not repeated at once.
func TestDiagnoseAStatementTooSlow(t *testing.T) {
	for _, number := range []uint16{1969, 3024} {
		err := error(&mysql.MySQLError{Number: number})
		if trouble, hint := Diagnose(err); Retryable(err) || trouble != TryLater || !strings.Contains(hint, "took longer") {
			t.Errorf("%d: %v, %s", number, trouble, hint)
		}
	}
}
