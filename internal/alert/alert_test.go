package alert_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// Of many concurrent callers, one says it, and again when its time is over.
func TestClaim(t *testing.T) {
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		for round := range 3 {
			now := dbtest.Must(db.SQL.Clock(t.Context()))(t)
			var said atomic.Int32
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					ours, err := alert.NewLog(db).Claim(t.Context(), "failed emails 3f2a91bc \xff'", now, time.Hour)
					dbtest.Ensure(t, err == nil, "%v", err)
					if ours {
						said.Add(1)
					}
				})
			}
			all.Wait()
			dbtest.Same(t, said.Load(), 1, "who say it in round %d", round)
			dbtest.Must(db.SQL.ExecContext(t.Context(), "UPDATE "+db.Notices()+" SET said_time = ?", engine.At(now.Add(-time.Hour))))(t)
		}
	})
}

// A caller that dies before it says something keeps the others from saying it for a minute only.
func TestClaimOfTheDead(t *testing.T) {
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		b := alert.NewLog(db)
		claim := func(want bool) {
			t.Helper()
			ours := dbtest.Must(b.Claim(t.Context(), "a", dbtest.Must(db.SQL.Clock(t.Context()))(t), time.Hour))(t)
			dbtest.Same(t, ours, want, "it may say so")
		}
		later := func(by time.Duration) {
			t.Helper()
			said := dbtest.Must(b.Times(t.Context(), []string{"a"}))(t)["a"]
			dbtest.OK(t, b.Note(t.Context(), []string{"a"}, said.Add(-by)))
		}
		claim(true)
		claim(false)
		later(time.Minute)
		claim(true)
		dbtest.OK(t, b.Note(t.Context(), []string{"a"}, dbtest.Must(db.SQL.Clock(t.Context()))(t)))
		later(time.Minute)
		claim(false)
	})
}
