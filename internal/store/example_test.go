package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// An application enqueues in its own transaction, on its own pool.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	defer os.RemoveAll(dir)
	pool, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_txlock=immediate")
	check(err)
	defer pool.Close()

	db, err := schema.FromPool(ctx, pool, schema.Named("shop"))
	check(err)
	defer db.Close()
	_, err = db.Migrate(ctx, []schema.Queue{{Name: "emails"}}) // or hipq init
	check(err)
	emails, err := queue.Open(ctx, db, queue.Options{Name: "emails"})
	check(err)

	tx, err := pool.BeginTx(ctx, nil)
	check(err)
	_, err = tx.ExecContext(ctx, "CREATE TABLE orders AS SELECT 4711 AS id")
	check(err)
	added, err := emails.EnqueueTx(ctx, tx, job.Params{Type: "send", Key: "order-4711", In: time.Hour})
	check(err)
	check(tx.Commit()) // both happen, or neither

	j, err := emails.Get(ctx, added[0].ID)
	check(err)
	fmt.Println(j.ID, j.Type, j.Key, j.State())
	// Output: 1 send order-4711 initial
}

// The same key again adds nothing, as long as the first job is not final.
func ExampleQueue_Enqueue() {
	ctx := context.Background()
	db, end := openShop()
	defer end()
	emails, err := queue.Open(ctx, db, queue.Options{Name: "emails"})
	check(err)
	for range 2 {
		added, err := emails.Enqueue(ctx, job.Params{Type: "send", Key: "order-4711"})
		check(err)
		fmt.Println(added.ID, added.Duplicate)
	}
	_, err = emails.Enqueue(ctx, job.Params{Type: "send", Key: "order-4711", OnDuplicate: job.RefuseDuplicate})
	fmt.Println(err)
	// Output:
	// 1 false
	// 1 true
	// enqueue in emails: a job with this key is not final yet: "order-4711" is job 1's
}

// An application is refused before it does anything if the tables are not those of its hipq.
func ExampleOpen() {
	ctx := context.Background()
	db, end := openShop()
	defer end()
	_, err := queue.Open(ctx, db, queue.Options{Name: "reports"})
	fmt.Println(err)
	// Output: queue reports: the database has no table shop_reports; run hipq init
}

// openShop opens a database with the tables of a queue, which is gone at the end.
func openShop() (db *schema.DB, end func()) {
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	db, err = schema.Open(context.Background(), schema.Options{Driver: "sqlite", Path: filepath.Join(dir, "shop.db"), Create: true}, schema.Named("shop"))
	check(err)
	_, err = db.Migrate(context.Background(), []schema.Queue{{Name: "emails"}})
	check(err)
	return db, func() {
		_ = db.Close()
		_ = os.RemoveAll(dir)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
