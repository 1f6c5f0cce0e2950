package schema_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

func TestAddresses(t *testing.T) {
	for dsn, want := range map[string][]string{
		"u:p@tcp(db)/shop":                     {"db:3306"},
		"u:p@tcp(db:3307)/shop":                {"db:3307"},
		"u:p@tcp([::1]:3307)/shop":             {"[::1]:3307"},
		"u:p@tcp(a,b)/shop":                    {"a:3306", "b:3306"},
		"u:p@tcp(a,b:3307)/shop":               {"a:3306", "b:3307"},
		"u:p@tcp(a:3307, b:3308,c)/shop":       {"a:3307", "b:3308", "c:3306"},
		"u:p@tcp([::1]:3307,[::2],[::3])/shop": {"[::1]:3307", "[::2]:3306", "[::3]:3306"},
		"u:p@unix(/run/a.sock)/shop":           {"/run/a.sock"},
		"u:p@unix(/run/a.sock,/run/b.sock)/s":  {"/run/a.sock", "/run/b.sock"},
	} {
		got := schema.Addresses(t, dsn)
		dbtest.Ensure(t, slices.Equal(got, want), "%s: %q, want %q", dsn, got, want)
	}
}

// The first node that serves is worked with, and no connection to another is used beside it.
func TestNodes(t *testing.T) {
	t.Parallel()
	first := dbtest.NewProxy(t)
	second := dbtest.ProxyTo(t, first.Direct)
	open := func() (*schema.DB, error) {
		db, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: dbtest.AnyOf(t, first.Source, second.Source)}, schema.Named("shop"))
		if err == nil {
			t.Cleanup(func() { _ = db.Close() })
		}
		return db, err
	}
	db, err := open()
	dbtest.OK(t, err)
	server := func() (id string) {
		t.Helper()
		dbtest.OK(t, db.SQL.GetContext(t.Context(), &id, "SELECT CONNECTION_ID()"))
		return id
	}
	at := server()
	now := server()
	dbtest.Ensure(t, now == at, "connection %s after %s", now, at)
	first.Cut()
	if _, err := db.SQL.ExecContext(t.Context(), "DO 1"); err != nil { // the pool makes another connection
		t.Error(err)
	}
	first.Mend()
	moved := server()
	now = server()
	dbtest.Ensure(t, moved != at && now == moved, "connection %s after %s: it has gone back", now, moved)
	second.Cut()
	server()

	time.AfterFunc(300*time.Millisecond, first.Cut) // in the middle of a question
	second.Mend()
	dbtest.OK(t, db.SQL.GetContext(t.Context(), &at, "SELECT SLEEP(1)"))
	second.Cut()
	first.Mend()

	first.Cut()
	second.Mend()
	first.Mend()
	first.Stall() // it takes connections, and says nothing
	if _, err = open(); err != nil {
		t.Error(err)
	}
	first.Resume()
	first.Cut()
	second.Cut()
	if _, err = open(); err == nil {
		t.Fatal("none of the nodes is there, and it opens")
	}
	kind, _ := schema.Diagnose(err)
	dbtest.Ensure(t, kind == schema.TryLater, "%v is %v", err, kind)
	dbtest.Ensure(t, !errors.Is(err, schema.ErrConfig), "%v", err)
}
