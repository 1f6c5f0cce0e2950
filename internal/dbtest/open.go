package dbtest

import (
	"testing"

	"github.com/hipq/hipq/schema"
)

// Open opens the database that Each named, with the tables of instance "shop" and these queues. Opened again, it is the
// same database on connections of its own.
func Open(t testing.TB, driver, source string, queues ...string) *schema.DB {
	t.Helper()
	names, err := schema.NewNames("shop", "")
	if err != nil {
		t.Fatal(err)
	}
	db, err := schema.Open(t.Context(), schema.Options{Driver: driver, Path: source, DSN: source, Create: true}, names)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	tables := make([]schema.Queue, len(queues))
	for i, q := range queues {
		tables[i].Name = q
	}
	if _, err := db.Migrate(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	return db
}
