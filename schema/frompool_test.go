package schema_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// TestFromPool: the tables are created and found through an application's connections, which are restored afterwards (dbtest.Pool).
func TestFromPool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		pool := dbtest.Pool(t, driver, source)
		db := dbtest.Must(schema.FromPool(t.Context(), pool, schema.Named("shop")))(t)
		queues := []schema.Queue{{Name: "emails"}}
		err := db.Check(t.Context(), queues)
		dbtest.Ensure(t, errors.Is(err, schema.ErrNotMigrated), "before Migrate: %v", err)
		changed, err := db.Migrate(t.Context(), queues)
		dbtest.Ensure(t, err == nil && len(changed) >= 9, "migrated %v, %v", changed, err)
		dbtest.OK(t, db.Check(t.Context(), queues))
		high, err := db.HighIDs(t.Context(), "shop_emails", "shop_activity")
		dbtest.Ensure(t, err == nil && len(high) <= 0, "%q, %v", high, err)
		dbtest.OK(t, db.Close())
		dbtest.Same(t, pool.PingContext(t.Context()), nil, "the application's pool was closed with it")
	})
}

// TestFromPoolOfOneConnection: a pool of one connection suffices, as for an in-memory database.
func TestFromPoolOfOneConnection(t *testing.T) {
	pool := dbtest.Must(sql.Open("sqlite", ":memory:"))(t)
	defer pool.Close()
	pool.SetMaxOpenConns(1)
	db := dbtest.Must(schema.FromPool(t.Context(), pool, schema.Named("shop")))(t)
	defer db.Close()
	queues := []schema.Queue{{Name: "emails"}}
	migrate(t, db, queues...)
	dbtest.OK(t, db.Check(t.Context(), queues))
}

// TestFromPoolAfterTrouble: a connection that can't be restored isn't reused, and an interrupted query keeps none.
func TestFromPoolAfterTrouble(t *testing.T) {
	pool := dbtest.Pool(t, "mysql", dbtest.MySQL(t))
	db := dbtest.Must(schema.FromPool(t.Context(), pool, schema.Named("shop")))(t)
	defer db.Close()
	conn := dbtest.Must(db.SQL.Conn(t.Context()))(t)
	_, err := conn.ExecContext(t.Context(), "KILL CONNECTION_ID()")
	dbtest.Ensure(t, err != nil, "the connection was not killed")
	_ = conn.Close()
	began := dbtest.Within(t, 100*time.Millisecond)
	_, err = db.SQL.ExecContext(began, "DO SLEEP(60)")
	dbtest.Ensure(t, err != nil, "the query was not interrupted")
	dbtest.Same(t, pool.Stats().InUse, 0, "connections are in use")
	_, err = db.SQL.Clock(t.Context())
	dbtest.Ensure(t, err == nil, "%v", err)
}

func TestFromPoolRefuses(t *testing.T) {
	sqlite := func(source string) *sql.DB {
		pool := dbtest.Must(sql.Open("sqlite", source))(t)
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

// other is an unsupported driver.
type other struct{ driver.Connector }

func (other) Driver() driver.Driver { return otherDriver{} }

type otherDriver struct{ driver.Driver }

func TestFromPoolWithoutDatabase(t *testing.T) {
	source := dbtest.MySQL(t)
	pool := dbtest.Must(sql.Open("mysql", source[:strings.LastIndex(source, "/")+1]))(t)
	defer pool.Close()
	_, err := schema.FromPool(t.Context(), pool, schema.Named("shop"))
	dbtest.Ensure(t, errors.Is(err, schema.ErrConfig) && strings.Contains(err.Error(), "database"), "%v", err)
}
