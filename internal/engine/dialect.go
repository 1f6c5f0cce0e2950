package engine

import (
	"fmt"
	"strings"
)

// Dialect is what differs between the engines in the SQL of the packages above: text, no logic. The statements
// themselves stand beside the code that runs them.
type Dialect struct {
	// Engine is the driver as the config names it: mysql or sqlite.
	Engine string
	// byIndex, with the index's name for %s, makes a query walk that index. MySQL's optimizer would otherwise leave the
	// index of a polling query as soon as its statistics are stale, which in a queue they always are.
	byIndex string
	// ByID makes a statement go to its rows by primary key, whatever else its conditions might suggest.
	ByID string
	// ByKey is ByID for a table whose key is a text.
	ByKey string
	// TypesOfClaim is by what a query groups that is about job types, and the statuses and shards that they have, and walks the index
	// $claim: as that is ordered, or all of them would be sorted. SQLite would read each row then, for its part, which costs more.
	TypesOfClaim string
	// Explain before a query asks for its plan.
	Explain string
	// ForUpdate locks the rows that are read. SQLite locks the whole file when the transaction begins.
	ForUpdate string
	// ForShare reads what is committed now, also in an application's transaction that began before.
	ForShare string
	// skipLocked is ForUpdate, passing over rows that another transaction holds: see Tx.SkipLocked. waitsFirst says that a
	// transaction does so only after it has waited without success.
	skipLocked string
	waitsFirst bool
	// deleteByID deletes rows of {table}, as t, by {ids} if they meet {condition}. With a list of ids, hint or not, MariaDB scans
	// a table of which most rows go, and waits there for those that others hold: a join from constants finds each row by its
	// key. idSeparator stands between the parameters.
	deleteByID, idSeparator string
	// catchUp is the statement that waits for what others have committed on other nodes, where there are any.
	catchUp string
	begin   string
	// timeText, with an expression for %s, reads a time as the text that the tables have: an application's connection may take it
	// for its own zone's otherwise, and an hour of some nights for another. timeColumn is that for a column of a table.
	timeText, timeColumn string
	// UpdateAtOnce begins an UPDATE that does not wait for rows which another transaction holds: it fails at once, and IsLockTimeout
	// tells. It is empty where there is none. RowCount is how many rows the last statement changed, as an expression.
	UpdateAtOnce, RowCount string
	// OrFail, behind the first word of a statement that changes many rows, saves SQLite a journal of its own for the statement. After an
	// error the transaction must be rolled back.
	OrFail string
	// together says that the server takes several statements at once, in one round trip.
	together bool
	// NowSQL is the database's clock, in UTC, as an expression. DearNow says that many of it in one statement cost more than to read
	// the clock before.
	NowSQL  string
	DearNow bool
	// Milliseconds are those from a job's scheduled_run_time until a parameter, 0 at least.
	Milliseconds string
	// Writers is how many transactions that write are worth having at the same time, such as a worker's rounds: more than one
	// where they overlap.
	Writers int
	// Reorder makes a jobs table's run_rank and its index again.
	Reorder string
	// AnyBytes says that a text may be any bytes: the engine doesn't check that they are UTF-8.
	AnyBytes bool
	// lastIDIsFirst says which id of a multi-row insert the driver reports: the first or the last.
	lastIDIsFirst bool
	// StillClock says that Now doesn't go on between statements that are sent together, whatever they wait for.
	StillClock bool
	// idStep is the query for how far the ids of one multi-row insert lie apart on a connection; where there is none, it is 1.
	idStep string
	// IDsByKey says that the ids of a multi-row insert can't be counted: who inserts reads them back by their rows' keys.
	IDsByKey bool
	SQLDir   string
	driver   string
}

// Index makes a query walk an index of a table: indexes are named after their table, with a dollar that no table's name has.
func (d Dialect) Index(table, name string) string { return fmt.Sprintf(d.byIndex, table+"$"+name) }

// Apart is d where the server takes one statement at a time.
func (d Dialect) Apart() Dialect {
	d.together = false
	return d
}

// TimeText reads times that an expression gives, for a Time.
func (d Dialect) TimeText(expression string) string { return fmt.Sprintf(d.timeText, expression) }

// TimeColumn reads times that stand in a column, for a Time.
func (d Dialect) TimeColumn(name string) string { return fmt.Sprintf(d.timeColumn, name) }

// TimeColumns is a list of columns of times for SELECT, by their names. Beside it ORDER BY needs the table's name before a column
// of the list, or it would be the text by which the rows are sorted.
func (d Dialect) TimeColumns(names ...string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = d.TimeColumn(name) + " AS " + name
	}
	return strings.Join(list, ", ")
}

// MySQL is the dialect of MySQL and MariaDB.
var MySQL = Dialect{
	Engine:       "mysql",
	byIndex:      "FORCE INDEX (%s)",
	ByID:         "FORCE INDEX (PRIMARY)",
	ByKey:        "FORCE INDEX (PRIMARY)",
	TypesOfClaim: "status, shard, part, job_type",
	Explain:      "EXPLAIN FORMAT=TRADITIONAL ", // which explain_format may have otherwise
	ForUpdate:    "FOR UPDATE",
	ForShare:     "LOCK IN SHARE MODE",
	skipLocked:   "FOR UPDATE SKIP LOCKED",
	deleteByID:   "DELETE t FROM (SELECT {ids} AS id) AS old STRAIGHT_JOIN {table} AS t ON t.id = old.id WHERE {condition}",
	idSeparator:  " AS id UNION ALL SELECT ",
	begin:        "START TRANSACTION",
	timeText:     "CAST(%s AS CHAR)",
	timeColumn:   "CAST(%s AS CHAR)",
	together:     true,
	UpdateAtOnce: "SET STATEMENT innodb_lock_wait_timeout = 0 FOR UPDATE",
	RowCount:     "ROW_COUNT()",
	NowSQL:       "UTC_TIMESTAMP(6)",
	Milliseconds: "GREATEST(0, TIMESTAMPDIFF(MICROSECOND, scheduled_run_time, ?) DIV 1000)",
	Writers:      2,
	Reorder: "ALTER TABLE {jobs} DROP INDEX {index}, DROP COLUMN run_rank," +
		" ADD COLUMN run_rank BIGINT AS ({rank}) STORED AFTER part, ADD INDEX {index} {columns}",
	lastIDIsFirst: true,
	idStep:        "SELECT @@auto_increment_increment",
	SQLDir:        "sql/mysql",
	driver:        "mysql",
}

// Galera is MySQL's on a node of a Galera cluster. The nodes number rows in steps of as many as they are, which
// changes as one comes or goes, also in the middle of a transaction. And while others' writes are applied to a node, SKIP
// LOCKED has crashed it (MariaDB 10.11.14), so it is kept for what can't be done without. A transaction that gives way to another
// node's, between two statements that were sent together, is undone without a word: what comes behind is done for itself, and the
// commit succeeds (MariaDB 10.11.19, once in a hundred where three nodes write the same rows). So each statement goes alone.
func Galera() Dialect {
	d := MySQL.Apart()
	d.waitsFirst, d.IDsByKey, d.StillClock = true, true, true
	d.catchUp = "SET STATEMENT wsrep_sync_wait = 1 FOR SELECT 1 INTO @hipq"
	return d
}

// SQLite is the dialect of SQLite.
var SQLite = Dialect{
	Engine:       "sqlite",
	byIndex:      "INDEXED BY %s",
	ByID:         "NOT INDEXED",
	TypesOfClaim: "status, shard, job_type",
	Explain:      "EXPLAIN QUERY PLAN ",
	deleteByID:   "DELETE FROM {table} AS t NOT INDEXED WHERE id IN ({ids}) AND {condition}",
	idSeparator:  ",",
	begin:        "BEGIN IMMEDIATE",
	UpdateAtOnce: "UPDATE OR FAIL",
	OrFail:       " OR FAIL",
	RowCount:     "changes()",
	// with _texttotime the driver takes every text for a time that looks like one, but in columns that are declared as TEXT
	timeText:   "CAST(%s AS BLOB)",
	timeColumn: "%s",
	Writers:    1,
	Reorder: "DROP INDEX {index};\nALTER TABLE {jobs} DROP COLUMN run_rank;\n" +
		"ALTER TABLE {jobs} ADD COLUMN run_rank INTEGER AS ({rank}) VIRTUAL;\nCREATE INDEX {index} ON {jobs} {columns}",
	AnyBytes: true,
	NowSQL:   "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')",
	DearNow:  true,
	// whole milliseconds, as SQLite has them
	Milliseconds: "MAX(0, CAST(ROUND((julianday(?) - julianday(scheduled_run_time)) * 86400000) AS INTEGER))",
	SQLDir:       "sql/sqlite",
	driver:       "sqlite",
}
