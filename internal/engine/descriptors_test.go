//go:build unix

package engine

import (
	"strings"
	"syscall"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite reports too few descriptors and missing rights by the same code. A process that can open no file may try later.
func TestDiagnoseNoDescriptors(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := was
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	trouble, hint := diagnoseSQLite(sqlite3.SQLITE_CANTOPEN, "unable to open database file")
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if trouble != TryLater || !strings.Contains(hint, "more files") {
		t.Errorf("%v, %s", trouble, hint)
	}
	if trouble, hint = diagnoseSQLite(sqlite3.SQLITE_CANTOPEN, "unable to open database file"); trouble != Misconfigured {
		t.Errorf("%v, %s", trouble, hint)
	}
	if trouble, hint = diagnoseSQLite(sqlite3.SQLITE_READONLY, ""); trouble != Misconfigured || strings.Contains(hint, "open files") {
		t.Errorf("%v, %s", trouble, hint)
	}
}
