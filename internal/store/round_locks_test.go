package store

import (
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// A round keeps no lock on a candidate that another worker has by now, nor on a row that it doesn't settle. That holds even
// for the only row.
func TestRoundKeepsNoForeignLock(t *testing.T) {
	db := dbtest.Open(t, "mysql", dbtest.MySQL(t), "emails")
	q := dbtest.Must(New(db, Options{Name: "emails", Types: []job.Type{job.DefaultType("send")}}))(t)
	added := q.enqueue(t, job.Params{Type: "send"})[0]
	dbtest.Must(db.SQL.ExecContext(t.Context(), "UPDATE shop_emails SET status = 'running', worker_id = 'w1'"))(t)
	w := workers.Worker{ID: "w2"}
	for name, query := range map[string]func(tx *engine.Tx) engine.Query{
		"candidate": func(tx *engine.Tx) engine.Query {
			return (&Candidates{q: q}).lock(tx, []candidate{{Position: schema.Position{ID: added.ID}}})
		},
		"attempt": func(tx *engine.Tx) engine.Query {
			return q.settling(w.ID, []Settled{{Job: &job.Job{ID: added.ID}}}, tx.SkipLocked, map[int64]settling{})
		},
	} {
		err := db.SQL.Tx(t.Context(), func(tx *engine.Tx) error {
			if err := tx.Read(t.Context(), query(tx)); err != nil {
				return err
			}
			return db.SQL.Tx(t.Context(), func(other *engine.Tx) error {
				ids, err := q.IDs(t.Context(), other, "SELECT id FROM shop_emails WHERE id = ? "+other.SkipLocked, added.ID)
				dbtest.Same(t, len(ids), 1, "%s: the row is locked", name)
				return err
			})
		})
		dbtest.OK(t, err)
	}
}
