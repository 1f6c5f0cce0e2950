package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
)

// A transaction waits for locked rows before it skips them, because SKIP LOCKED may crash a node.
func TestGaleraWaitsFirst(t *testing.T) {
	dsns := dbtest.Galera(t)
	db := dbtest.Open(t, "mysql", dsns[0]).SQL
	dbtest.Exec(t, db, "CREATE TABLE things (id INT PRIMARY KEY)", "INSERT INTO things VALUES (1), (2)")
	other := dbtest.Must(db.BeginTx(t.Context(), nil))(t)
	dbtest.Must(other.ExecContext(t.Context(), "SELECT id FROM things WHERE id = 1 FOR UPDATE"))(t)
	var tries []string
	var got []int
	err := db.Tx(t.Context(), func(tx *engine.Tx) error {
		got, tries = nil, append(tries, tx.SkipLocked)
		return tx.SelectContext(t.Context(), &got, "SELECT id FROM things "+tx.SkipLocked)
	})
	want := []string{"FOR UPDATE", "FOR UPDATE SKIP LOCKED"}
	dbtest.Ensure(t, err == nil && slices.Equal(tries, want) && slices.Equal(got, []int{2}), "%v: %q, which gave %d", err, tries, got)
	dbtest.Same(t, other.Rollback(), nil)
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

// CatchUp waits for a node that always needs some seconds, and doesn't leave it for another one.
func TestCatchUpTakesLong(t *testing.T) {
	proxy := dbtest.NewProxy(t)
	for name, dsn := range map[string]string{"one": proxy.Source, "two": dbtest.AnyOf(t, proxy.Source, dbtest.ProxyTo(t, proxy.Direct).Source)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.Open(t, "mysql", dsn).SQL
			db.CatchUpBy("DO SLEEP(4)")
			dbtest.OK(t, db.CatchUp(t.Context()))
			dbtest.Ensure(t, len(db.NodesTried()) < 2, "it left the node: %v", db.NodesTried())
		})
	}
}
