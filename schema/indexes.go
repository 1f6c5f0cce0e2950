package schema

import (
	"strings"

	"github.com/hipq/hipq/internal/engine"
)

type index struct{ table, name, create string }

func newIndex(unique, table, name, columns string) index {
	full := table + "$" + name
	return index{table, full, "CREATE " + unique + "INDEX " + full + " ON " + table + " " + columns}
}

// replaceIndex returns the statements for an index with other columns. Workers never miss it: SQLite's migration is one
// transaction.
func (db *DB) replaceIndex(i index) []string {
	if db.SQL.Engine == engine.SQLite.Engine {
		return []string{"DROP INDEX " + i.name, i.create}
	}
	add := strings.Replace(strings.TrimPrefix(i.create, "CREATE "), " ON "+i.table, "", 1)
	return []string{"ALTER TABLE " + i.table + " DROP INDEX " + i.name + ", ADD " + add}
}

// indexes are the secondary indexes of a unit's tables. They repeat the SQL files, to recreate a dropped index.
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
