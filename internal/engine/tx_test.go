package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
)

// A caller may give up in the very moment in which its transaction begins: the connection doesn't go back to the pool inside
// of it, for then no other could begin on it, and on SQLite the file would stay locked.
func TestCallersGiveUpAsTheyBegin(t *testing.T) {
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t))
	for n := range 20_000 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for at := time.Now(); time.Since(at) < time.Duration(n%60)*time.Microsecond; { // now sooner, now later
			}
			cancel()
		}()
		err := db.Tx(ctx, func(*engine.Tx) error { return nil })
		if err != nil && strings.Contains(err.Error(), "within a transaction") {
			t.Fatalf("after %d: %v", n, err)
		}
	}
}
