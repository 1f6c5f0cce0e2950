package engine_test

import (
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

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
