// Package gorm shows hipq beside GORM on SQLite, in one transaction and with one SQLite driver.
package gorm

import (
	"database/sql"
	"path/filepath"
	"testing"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

type order struct{ ID int64 }

// TestGORM: GORM's dialect takes a pool of modernc.org/sqlite, which hipq links and registers as "sqlite". A second driver of
// that name, such as the one of github.com/glebarez/sqlite, would panic at the program's start.
func TestGORM(t *testing.T) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pool, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_txlock=immediate&_pragma=journal_mode(wal)&_pragma=busy_timeout(5000)")
	must(err)
	defer func() { _ = pool.Close() }()
	orders, err := gorm.Open(sqlite.New(sqlite.Config{Conn: pool}), &gorm.Config{})
	must(err)
	must(orders.AutoMigrate(&order{}))

	db, err := schema.FromPool(ctx, pool, schema.Named("shop"))
	must(err)
	_, err = db.Migrate(ctx, []schema.Queue{{Name: "emails"}})
	must(err)
	emails, err := queue.Open(ctx, db, queue.Options{Name: "emails"})
	must(err)

	must(orders.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&order{ID: 4711}).Error; err != nil {
			return err
		}
		_, err := emails.EnqueueTx(ctx, tx.Statement.ConnPool.(*sql.Tx), job.Params{Type: "send", Key: "order-4711"})
		return err
	}))
	var jobs int64
	must(orders.Table("shop_emails").Where("job_key = ?", "order-4711").Count(&jobs).Error)
	if jobs != 1 {
		t.Errorf("%d jobs", jobs)
	}
}
