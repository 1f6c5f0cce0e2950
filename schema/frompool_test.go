package schema_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// TestFromPool: the tables are made, and found, by an application's connections, which are as they were afterwards (dbtest.Pool).
func TestFromPool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		pool := dbtest.Pool(t, driver, source)
		db, err := schema.FromPool(t.Context(), pool, schema.Named("shop"))
		must(t, err)
		queues := []schema.Queue{{Name: "emails"}}
		if err := db.Check(t.Context(), queues); !errors.Is(err, schema.ErrNotMigrated) {
			t.Errorf("before Migrate: %v", err)
		}
		if changed, err := db.Migrate(t.Context(), queues); err != nil || len(changed) < 9 {
			t.Errorf("migrated %v, %v", changed, err)
		}
		must(t, db.Check(t.Context(), queues))
		if high, err := db.HighIDs(t.Context(), "shop_emails", "shop_activity"); err != nil || len(high) > 0 {
			t.Errorf("%q, %v", high, err)
		}
		must(t, db.Close())
		dbtest.Same(t, pool.PingContext(t.Context()), nil, "the application's pool was closed with it")
	})
}

// TestFromPoolOfOneConnection: a pool of one connection is enough, as of a database in memory.
func TestFromPoolOfOneConnection(t *testing.T) {
	pool, err := sql.Open("sqlite", ":memory:")
	must(t, err)
	defer pool.Close()
	pool.SetMaxOpenConns(1)
	db, err := schema.FromPool(t.Context(), pool, schema.Named("shop"))
	must(t, err)
	defer db.Close()
	queues := []schema.Queue{{Name: "emails"}}
	migrate(t, db, queues...)
	must(t, db.Check(t.Context(), queues))
}

// TestFromPoolAfterTrouble: a connection that can't be put back as it was doesn't go back, and an interrupted query keeps none.
func TestFromPoolAfterTrouble(t *testing.T) {
	pool := dbtest.Pool(t, "mysql", dbtest.MySQL(t))
	db, err := schema.FromPool(t.Context(), pool, schema.Named("shop"))
	must(t, err)
	defer db.Close()
	conn, err := db.SQL.Conn(t.Context())
	must(t, err)
	if _, err := conn.ExecContext(t.Context(), "KILL CONNECTION_ID()"); err == nil {
		t.Error("the connection was not killed")
	}
	_ = conn.Close()
	began, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := db.SQL.ExecContext(began, "DO SLEEP(60)"); err == nil {
		t.Error("the query was not interrupted")
	}
	dbtest.Same(t, pool.Stats().InUse, 0, "connections are in use")
	if _, err := db.SQL.Clock(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFromPoolRefuses(t *testing.T) {
	sqlite := func(source string) *sql.DB {
		pool, err := sql.Open("sqlite", source)
		must(t, err)
		t.Cleanup(func() { _ = pool.Close() })
		return pool
	}
	wide := sqlite(dbtest.SQLite(t))
	dbtest.Must(wide.Exec("PRAGMA encoding = 'UTF-16'; CREATE TABLE t (a)"))(t)
	closed := sqlite(dbtest.SQLite(t))
	_ = closed.Close()
	for name, c := range map[string]struct {
		pool  *sql.DB
		names schema.Names
		is    error
		says  string
	}{
		"no pool":        {nil, schema.Named("shop"), schema.ErrConfig, "nil"},
		"another driver": {sql.OpenDB(other{}), schema.Named("shop"), schema.ErrConfig, "go-sql-driver/mysql and modernc.org/sqlite"},
		"no names":       {sqlite(":memory:"), schema.Names{}, schema.ErrName, "Named or NewNames"},
		"no instance":    {sqlite(":memory:"), schema.Named("Shop"), schema.ErrName, "Shop"},
		"UTF-16":         {wide, schema.Named("shop"), schema.ErrConfig, "UTF-16"},
		"closed":         {closed, schema.Named("shop"), nil, "closed"},
	} {
		_, err := schema.FromPool(t.Context(), c.pool, c.names)
		dbtest.Ensure(t, err != nil && (c.is == nil || errors.Is(err, c.is)) && strings.Contains(err.Error(), c.says), "%s: %v", name, err)
	}
}

// other is a driver that hipq doesn't know.
type other struct{ driver.Connector }

func (other) Driver() driver.Driver { return otherDriver{} }

type otherDriver struct{ driver.Driver }

// TestFromPoolWithoutDatabase: a DSN without a database.
func TestFromPoolWithoutDatabase(t *testing.T) {
	source := dbtest.MySQL(t)
	pool, err := sql.Open("mysql", source[:strings.LastIndex(source, "/")+1])
	must(t, err)
	defer pool.Close()
	if _, err := schema.FromPool(t.Context(), pool, schema.Named("shop")); !errors.Is(err, schema.ErrConfig) || !strings.Contains(err.Error(), "database") {
		t.Error(err)
	}
}
