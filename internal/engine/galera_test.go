package engine_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
)

// Transactions at all nodes take turns by writing one row, and take the next rows of a table. Each is committed wholly or not
// at all.
func TestGaleraTransactionsAreWhole(t *testing.T) {
	const rows, atEach = 1200, 3
	taken, all := map[int]int{}, sync.WaitGroup{}
	var mu sync.Mutex
	var first *engine.DB
	for node, dsn := range dbtest.Galera(t) {
		db := dbtest.Open(t, "mysql", dsn).SQL
		if node == 0 {
			first = db
			dbtest.Exec(t, db, "CREATE TABLE turns (id INT PRIMARY KEY, turn INT NOT NULL)", "INSERT INTO turns VALUES (1, 0)",
				"CREATE TABLE things (id INT PRIMARY KEY, taker TEXT)", "CREATE TABLE notes (id BIGINT AUTO_INCREMENT PRIMARY KEY, thing INT)")
			for id := range rows {
				dbtest.Exec(t, db, fmt.Sprintf("INSERT INTO things (id) VALUES (%d)", id))
			}
		}
		dbtest.OK(t, db.CatchUp(t.Context()))
		for taker := range atEach {
			all.Go(func() {
				for found := true; found; {
					var ids []int
					err := db.Tx(t.Context(), func(tx *engine.Tx) error {
						ids = nil
						err := tx.Write(t.Context(), "UPDATE turns SET turn = turn + 1 WHERE id = 1")
						if err == nil {
							err = tx.SelectContext(t.Context(), &ids, "SELECT id FROM things WHERE taker IS NULL ORDER BY id LIMIT 2 FOR UPDATE")
						}
						for _, id := range ids {
							if err == nil {
								err = tx.Write(t.Context(), "UPDATE things SET taker = ? WHERE id = ?", fmt.Sprint(node, taker), id)
							}
							if err == nil {
								err = tx.Write(t.Context(), "INSERT INTO notes (thing) VALUES (?)", id)
							}
						}
						return err
					})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, id := range ids {
						taken[id]++
					}
					mu.Unlock()
					found = len(ids) > 0
				}
			})
		}
	}
	all.Wait()
	twice, notes := 0, 0
	for _, times := range taken {
		if times > 1 {
			twice++
		}
	}
	dbtest.OK(t, first.CatchUp(t.Context()))
	dbtest.OK(t, first.GetContext(t.Context(), &notes, "SELECT COUNT(*) FROM notes"))
	if len(taken) != rows || twice > 0 || notes != rows {
		t.Errorf("of %d rows %d were taken, %d of them more than once; there are %d notes", rows, len(taken), twice, notes)
	}
}

// A transaction waits for locked rows before it skips them, because SKIP LOCKED may crash a node.
func TestGaleraWaitsFirst(t *testing.T) {
	dsns := dbtest.Galera(t)
	db := dbtest.Open(t, "mysql", dsns[0]).SQL
	dbtest.Exec(t, db, "CREATE TABLE things (id INT PRIMARY KEY)", "INSERT INTO things VALUES (1), (2)")
	other, err := db.BeginTx(t.Context(), nil)
	dbtest.OK(t, err)
	dbtest.Must(other.ExecContext(t.Context(), "SELECT id FROM things WHERE id = 1 FOR UPDATE"))(t)
	var tries []string
	var got []int
	err = db.Tx(t.Context(), func(tx *engine.Tx) error {
		got, tries = nil, append(tries, tx.SkipLocked)
		return tx.SelectContext(t.Context(), &got, "SELECT id FROM things "+tx.SkipLocked)
	})
	want := []string{"FOR UPDATE", "FOR UPDATE SKIP LOCKED"}
	dbtest.Ensure(t, err == nil && slices.Equal(tries, want) && slices.Equal(got, []int{2}), "%v: %q, which gave %d", err, tries, got)
	if err := other.Rollback(); err != nil {
		t.Error(err)
	}
}

// A command that waits for the others' commits goes on at another node when its own is cut off.
func TestGaleraCatchesUpElsewhere(t *testing.T) {
	nodes := dbtest.OwnNodes(t)
	db := dbtest.Open(t, "mysql", dbtest.AnyOf(t, nodes[1].DSN, nodes[2].DSN)).SQL
	end := nodes[1].Isolate()
	defer end()
	for apart := time.Now().Add(10 * time.Second); time.Now().Before(apart); time.Sleep(10 * time.Millisecond) {
		dbtest.OK(t, db.CatchUp(t.Context()))
	}
	dbtest.Ensure(t, db.NodesTried() != nil && len(db.NodesTried()) == 2, "the node was not cut off: %v", db.NodesTried())
}
