package schema_test

import (
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// On MySQL a migration that was interrupted goes on where it stopped: also right behind a statement whose version it could
// not write down any more. (SQLite's is one transaction.)
func TestMigrateGoesOn(t *testing.T) {
	db := dbtest.Open(t, "mysql", dbtest.MySQL(t), "emails")
	emails := []schema.Queue{{Name: "emails", Order: schema.OrderSchedule}}
	for range 2 {
		if _, err := db.ExecContext(t.Context(), "UPDATE hipq_tables SET version = 1"); err != nil {
			t.Fatal(err)
		}
		if err := db.Check(t.Context(), emails); err == nil {
			t.Error("tables of version 1 pass for up to date")
		}
		changed, err := db.Migrate(t.Context(), emails)
		if err != nil || len(changed) != 7 {
			t.Errorf("changed %v: %v", changed, err)
		}
		if err := db.Check(t.Context(), emails); err != nil {
			t.Error(err)
		}
	}
}
