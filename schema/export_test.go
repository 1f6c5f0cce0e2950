package schema

import (
	"context"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
)

// BeginMigration takes the lock of a migration; end gives it back.
func (db *DB) BeginMigration(ctx context.Context, conn *sqlx.Conn) (end func(error) error, err error) {
	return migration{db: db, conn: conn}.begin(ctx)
}

// QueueSteps are the statements of the versions of a queue's table, as Migrate runs them.
func (db *DB) QueueSteps(queue string) ([][]string, error) {
	units, err := db.units([]Queue{{Name: queue}})
	if err != nil {
		return nil, err
	}
	return db.steps(units[1])
}

// ChangeOrder are the statements that give a table another order.
func (db *DB) ChangeOrder(table string, from, to Order) []string { return db.setOrder(table, from, to) }

// Age makes what was found fit so much older.
func (db *DB) Age(d time.Duration) {
	for u, at := range db.fit.units {
		db.fit.units[u] = at.Add(-d)
	}
}

// Addresses are the servers that a DSN names.
func Addresses(t testing.TB, dsn string) []string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return addresses(cfg)
}
