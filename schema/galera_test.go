package schema_test

import (
	"sync"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// Nodes of a cluster know nothing of each other's locks: inits on all of them at the same time make each table once.
func TestGaleraMigrateAtOnce(t *testing.T) {
	for range 5 {
		queues := []schema.Queue{{Name: "emails"}, {Name: "reports", Order: schema.OrderSchedule}}
		var all sync.WaitGroup
		for _, dsn := range dbtest.Galera(t) {
			db, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: dsn, Create: true}, schema.Named("shop"))
			dbtest.OK(t, err)
			t.Cleanup(func() { _ = db.Close() })
			all.Go(func() {
				_, err := db.Migrate(t.Context(), queues)
				dbtest.Ensure(t, err == nil, "%v", err)
				dbtest.Same(t, db.Check(t.Context(), queues), nil)
			})
		}
		all.Wait()
	}
}
