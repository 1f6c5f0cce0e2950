package activity

import (
	"context"
	"database/sql"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

func added(t *testing.T, db *schema.DB, jobs ...int64) {
	t.Helper()
	dbtest.OK(t, db.SQL.Tx(t.Context(), func(tx *engine.Tx) error {
		var entries []Entry
		for _, id := range jobs {
			entries = append(entries, Entry{Kind: Job, State: Added, Queue: "mail", JobID: id})
		}
		return Write(t.Context(), tx, db, entries)
	}))
}

// TestFollowGoesOnInTheMidst: the database goes away after some of the newest entries; by its return, others are newer.
func TestFollowGoesOnInTheMidst(t *testing.T) {
	t.Parallel()
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		added(t, db, 1, 2, 3, 4, 5)
		var came []int64
		w := New(db).follow(Filter{Limit: 3})
		ctx, cancel := context.WithCancel(t.Context())
		err := w.look(ctx, func(e Entry) error {
			came = append(came, e.JobID)
			cancel()
			return ctx.Err()
		})
		dbtest.Ensure(t, err != nil, "no error")
		added(t, db, 6, 7)
		for range 2 {
			dbtest.OK(t, w.look(t.Context(), func(e Entry) error {
				came = append(came, e.JobID)
				return nil
			}))
		}
		dbtest.Same(t, came, []int64{3, 4, 5, 6, 7})
	})
}

// TestFollowEachOnce: whatever the order of commits and rollbacks, each entry comes once, when it is committed.
func TestFollowEachOnce(t *testing.T) {
	t.Parallel()
	db := dbtest.Open(t, "mysql", dbtest.MySQL(t))
	w := New(db).follow(Filter{Queue: "mail"})
	w.window = 3
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	dbtest.OK(t, w.look(t.Context(), func(Entry) error { return nil })) // entries of before may be left out
	var open [4]*sql.Tx
	var written [len(open)]map[int64]bool
	due, job := map[int64]bool{}, int64(0)
	for step := range 400 {
		n := r.IntN(len(open))
		if open[n] == nil {
			open[n], written[n] = dbtest.Must(db.SQL.BeginTx(t.Context(), nil))(t), map[int64]bool{}
		}
		for range r.IntN(4) {
			job++
			queue := []string{"mail", "other"}[r.IntN(2)]
			dbtest.OK(t, Write(t.Context(), db.SQL.Join(open[n]), db, []Entry{{Kind: Job, State: Added, Queue: queue, JobID: job}}))
			if queue == "mail" {
				written[n][job] = true
			}
		}
		end := r.IntN(4*(n+1)) == 0 // some stay open longer
		switch {
		case end && r.IntN(3) == 0:
			dbtest.OK(t, open[n].Rollback())
			open[n] = nil
		case end:
			dbtest.OK(t, open[n].Commit())
			maps.Copy(due, written[n])
			open[n] = nil
		}
		if r.IntN(3) > 0 {
			continue
		}
		dbtest.OK(t, w.look(t.Context(), func(e Entry) error {
			dbtest.Ensure(t, due[e.JobID], "job %d came, at step %d", e.JobID, step)
			delete(due, e.JobID)
			return nil
		}))
		dbtest.Require(t, len(due) == 0, "these have not come at step %d: %v", step, due)
	}
	for _, tx := range open {
		if tx != nil {
			dbtest.OK(t, tx.Rollback())
		}
	}
}

// TestFollowReadsLittle: a look reads the newest and late ids, however many entries don't match.
func TestFollowReadsLittle(t *testing.T) {
	t.Parallel()
	db := dbtest.Open(t, "mysql", dbtest.MySQL(t))
	db.SQL.SetMaxOpenConns(1) // the one whose reads are counted
	reads := func() int64 { return dbtest.Reads(t, db.SQL) }
	added(t, db, 1, 2, 3)
	for range 13 {
		dbtest.Must(db.SQL.ExecContext(t.Context(), "INSERT INTO "+db.Activity()+" (at, kind, state, queue) SELECT at, kind, state, queue FROM "+db.Activity()))(t)
	}
	w := New(db).follow(Filter{JobKey: "nosuch"})
	look := func() {
		t.Helper()
		dbtest.OK(t, w.look(t.Context(), func(Entry) error {
			t.Error("an entry came")
			return nil
		}))
	}
	look()
	before := reads()
	look()
	n := reads() - before
	dbtest.Ensure(t, n > followed && n < followed+200, "it read %d times", n)
	dbtest.Ensure(t, len(w.known) <= followed, "%d ids are known", len(w.known))
}
