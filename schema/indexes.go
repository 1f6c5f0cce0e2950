package schema

import (
	"github.com/hipq/hipq/internal/engine"
)

// index is an index of a table, and the statement that makes it.
type index struct{ table, name, create string }

func newIndex(unique, table, name, columns string) index {
	full := table + "$" + name
	return index{table, full, "CREATE " + unique + "INDEX " + full + " ON " + table + " " + columns}
}

const (
	// Counts is the condition for a job that counts against the queue's limit. One that is only being decided about counts no more.
	Counts = "status IN ('locked', 'running', 'answered', 'awaiting')"
	// HasWorker is the condition for a job that a worker has locked.
	HasWorker = "status IN ('locked', 'running', 'answered', 'deciding')"
)

// indexes are those that a unit's tables have besides their primary keys: what the files of SQL make, once more, to make one anew that
// somebody has dropped.
func (db *DB) indexes(u unit) []index {
	if u.kind != queueKind {
		return []index{
			newIndex("", db.Activity(), "at", "(at)"),
			newIndex("", db.Activity(), "job", "(job_id, queue)"),
			newIndex("", db.Workers(), "state", "(state, lock_until)"),
			newIndex("", db.Workers(), "start", "(start_time)"),
		}
	}
	wake := "(wake_time)"
	if db.SQL.Engine == engine.SQLite.Engine {
		wake += " WHERE wake_time IS NOT NULL"
	}
	return []index{
		newIndex("UNIQUE ", u.tables[0], "live", "(job_type, job_key, live)"),
		newIndex("", u.tables[0], "wake", wake),
		newIndex("", u.tables[0], ClaimIndex, claimColumns),
	}
}
