package dbtest

import (
	"testing"

	"github.com/hipq/hipq/internal/engine"
)

// A database goes to the next test without its rows, and not at all if a test changed the layout.
func TestReuse(t *testing.T) {
	reuse = &databases{queues: []string{"emails"}}
	defer func() { reuse.drop(); reuse = nil }()
	var sources []string
	for _, change := range []string{"DO 1", "ALTER TABLE shop_workers ADD extra INT", "UPDATE hipq_tables SET version = 0", "DO 1"} {
		t.Run(change, func(t *testing.T) {
			source := MySQL(t)
			sources = append(sources, source)
			db := Open(t, "mysql", source, "emails")
			var id int64
			err := db.SQL.Tx(t.Context(), func(tx *engine.Tx) error {
				if _, err := tx.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type) VALUES ('send')"); err != nil {
					return err
				}
				return tx.GetContext(t.Context(), &id, "SELECT SUM(id) FROM shop_emails")
			})
			if err == nil {
				_, err = db.SQL.ExecContext(t.Context(), change)
			}
			Ensure(t, err == nil && id == 1, "the first job's id is %d: %v", id, err)
		})
	}
	Ensure(t, len(sources) != 4 || sources[0] == sources[1] && sources[1] != sources[2] && sources[2] != sources[3], "the tests had %v", sources)
}
