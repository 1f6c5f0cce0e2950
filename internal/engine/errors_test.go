package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	sqlite3 "modernc.org/sqlite/lib"
)

// TestDiagnose checks what the servers' errors mean. Each server reports the same in its own way.
func TestDiagnose(t *testing.T) {
	for _, c := range []struct {
		number  uint16
		message string
		trouble Trouble
		// hints are parts of the remedy.
		hints     []string
		retryable bool
	}{
		{1114, "The table 'shop_emails' is full", TryLater, []string{"full"}, false},
		{1021, `Disk full (/tmp/#sql); waiting for someone to free some space... (errno: 28 "No space left on device")`, TryLater, []string{"full"}, false},
		{3, `Error writing file '/tmp/ML5' (Errcode: 28 "No space left on device")`, TryLater, []string{"full"}, false},
		{1026, `Error writing file './bin.000001' (errno: 28 - No space left on device)`, TryLater, []string{"full"}, false},
		{1030, "Got error 28 from storage engine", TryLater, []string{"full"}, false},
		{1030, "Got error 168 from storage engine", NoTrouble, nil, false}, // another error
		// The highest id has no successor.
		{167, "Out of range value for column 'id' at row 1", Misconfigured, []string{"highest id"}, false},                          // MariaDB
		{1062, "Duplicate entry '9223372036854775807' for key 'shop_emails.PRIMARY'", Misconfigured, []string{"highest id"}, false}, // MySQL 9
		{1062, "Duplicate entry 'send-a' for key 'shop_emails.live_key'", NoTrouble, nil, false},
		// the lock of an INSERT … SELECT
		{1467, "Failed to read auto-increment value from storage engine", TryLater, []string{"AUTO-INC", "highest id"}, false},
		// A read-only server may accept writes later.
		{1290, "", TryLater, []string{"read-only"}, true},
		{1792, "", TryLater, []string{"read-only"}, true},
		{1836, "", TryLater, []string{"read-only"}, true},
		// A statement that exceeds the server's time limit is not repeated at once.
		{1969, "", TryLater, []string{"took longer"}, false},
		{3024, "", TryLater, []string{"took longer"}, false},
	} {
		err := &mysql.MySQLError{Number: c.number, Message: c.message}
		trouble, hint := Diagnose(err)
		for _, part := range c.hints {
			if !strings.Contains(hint, part) {
				t.Errorf("%v: %s", err, hint)
			}
		}
		if says := fmt.Sprint(trouble, Retryable(err)); says != fmt.Sprint(c.trouble, c.retryable) {
			t.Errorf("%v is of trouble %s", err, says)
		}
	}
	// The last is what modernc reports, also for readers.
	for _, code := range []int{sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE} {
		if trouble, hint := diagnoseSQLite(code, "disk I/O error"); trouble != TryLater || !strings.Contains(hint, "full") {
			t.Errorf("%d: %v, %s", code, trouble, hint)
		}
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

// A row is kept by a foreign key, and by a trigger with SQLSTATE 45000 whatever its number. A server may report 1217 if this user can't
// see the referring table. MariaDB 10.11 and MySQL 9 report 1451 then too, so no test with a server sees it.
func TestIsKept(t *testing.T) {
	signal := [5]byte([]byte(stateSignal))
	for err, kept := range map[*mysql.MySQLError]bool{
		{Number: 1451}: true, {Number: 1217}: true, {Number: 1644, SQLState: signal}: true, {Number: 31000, SQLState: signal}: true,
		{Number: 1452}: false, {Number: 1062}: false, {Number: 1205}: false,
	} {
		if IsKept(fmt.Errorf("delete: %w", err)) != kept {
			t.Errorf("%v keeps a row: %t", err, !kept)
		}
	}
}
