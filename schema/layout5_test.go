package schema_test

import (
	"slices"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// Layout 5 of a queue adds the columns of progress; jobs stay as they are and have said nothing, nor has a row of plain SQL.
func TestQueueLayout5(t *testing.T) {
	for _, order := range []schema.Order{schema.OrderLowest, schema.OrderSchedule} {
		dbtest.Each(t, func(t *testing.T, driver, source string) {
			db := dbtest.Open(t, driver, source, "emails")
			queues := []schema.Queue{{Name: "emails", Order: order}}
			if _, err := db.Migrate(t.Context(), queues); err != nil {
				t.Fatal(err)
			}
			for _, column := range []string{"progress", "progress_note", "progress_attempt", "progress_time"} {
				execute(t, db, "ALTER TABLE shop_emails DROP COLUMN "+column)
			}
			execute(t, db, "INSERT INTO shop_emails (job_type, job_key, job_data, line, state, attempt, timeout, priority, throttle_factor, time_windows,"+
				" start_time, update_time) VALUES ('send', 'a', 'x', 'locked', 'running', 3, 60, 7, 1, 'NONE', '2026-01-01 00:00:00', '2026-01-01 00:00:00')",
				"UPDATE hipq_tables SET version = 4 WHERE table_name = 'shop_emails'")
			if err := db.Check(t.Context(), queues); err == nil {
				t.Error("a table of version 4 passes for up to date")
			}
			for again := range 2 {
				changed, err := db.Migrate(t.Context(), queues)
				if err != nil || len(changed) != 1-again || again == 0 && !slices.Equal(changed, []string{"shop_emails"}) {
					t.Errorf("changed %v: %v", changed, err)
				}
			}
			// a run that was interrupted before it could say that it is done
			execute(t, db, "UPDATE hipq_tables SET version = 4 WHERE table_name = 'shop_emails'")
			if changed, err := db.Migrate(t.Context(), queues); err != nil || len(changed) != 1 {
				t.Errorf("changed %v: %v", changed, err)
			}
			if err := db.Check(t.Context(), queues); err != nil {
				t.Error(err)
			}
			if driver == "mysql" { // shard is there already; before 8.0.29 MySQL adds columns at once there alone
				var last string
				err := db.GetContext(t.Context(), &last, "SELECT GROUP_CONCAT(column_name ORDER BY ordinal_position) FROM information_schema.columns c"+
					" WHERE table_schema = DATABASE() AND table_name = 'shop_emails' AND ordinal_position >"+
					" (SELECT COUNT(*) - 5 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'shop_emails')")
				if err != nil || last != "shard,progress,progress_note,progress_attempt,progress_time" {
					t.Errorf("the last columns are %s: %v", last, err)
				}
			}
			execute(t, db, "INSERT INTO shop_emails (job_type, job_key) VALUES ('send', 'b')")
			var n int
			err := db.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_emails WHERE progress = 0 AND progress_note = 'NONE' AND progress_attempt = 0"+
				" AND progress_time IS NULL AND (job_key = 'b' AND attempt = 0 OR job_key = 'a' AND attempt = 3 AND state = 'running' AND priority = 7)")
			if err != nil || n != 2 {
				t.Errorf("%d rows are as they should be: %v", n, err)
			}
		})
	}
}
