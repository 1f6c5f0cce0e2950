package engine

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/hipq/hipq/internal/texts"
)

// Dialect holds the SQL differences between the engines as text without logic. The statements themselves are beside the code
// that runs them.
type Dialect struct {
	// Engine is the driver's name in the config: mysql or sqlite.
	Engine string
	// byIndex, with the index's name for %s, forces an index. MySQL's optimizer would otherwise leave a polling query's index
	// once its statistics are stale, which in a queue is always.
	byIndex string
	// ByID makes a statement find its rows by primary key, whatever its other conditions suggest.
	ByID string
	// ByKey is ByID for a table whose key is a text.
	ByKey string
	// TypesOfClaim is the GROUP BY of queries about job types, with statuses and shards, that scan the index $claim. MySQL
	// needs part for the index's order, or it sorts all entries. SQLite would read each row for part, which costs more.
	TypesOfClaim string
	// Explain is the prefix that asks for a query's plan.
	Explain string
	// ForUpdate locks the rows that are read. SQLite locks the whole file when the transaction begins.
	ForUpdate string
	// ForShare reads the latest commits, even in an application's transaction that began earlier.
	ForShare string
	// skipLocked is ForUpdate that skips rows locked by another transaction: see Tx.SkipLocked.
	skipLocked string
	// waitsFirst says that a transaction skips only after a lock timeout.
	waitsFirst bool
	// deleteByID deletes rows of {table}, as t, by {ids} if they meet {condition}. Given a list of ids, MariaDB scans a table
	// that loses most rows, despite a hint, and waits for others' locks. A join from constants finds each row by its key.
	// idSeparator stands between the parameters.
	deleteByID, idSeparator string
	// catchUp waits for commits on the other nodes of a cluster; empty without one.
	catchUp string
	begin   string
	// timeText, with an expression for %s, reads a time as the stored text. Otherwise an application's connection might
	// convert it to its zone, and shift an hour of some nights. timeColumn does the same for a column.
	timeText, timeColumn string
	// UpdateAtOnce begins an UPDATE that fails at once on a locked row, with IsLockTimeout; empty if the engine has none.
	// RowCount is the expression for how many rows the last statement changed.
	UpdateAtOnce, RowCount string
	// OrFail, after the first word of a statement that changes many rows, saves SQLite a statement journal. After an error,
	// roll back the transaction.
	OrFail string
	// together says that the server accepts several statements in one round trip.
	together bool
	// Packet is how many bytes a statement may have: the server's max_allowed_packet, less a margin; 0 means that it doesn't matter.
	Packet int
	// NowSQL is the database's clock in UTC, as an expression.
	NowSQL string
	// DayAgo is NowSQL a day earlier.
	DayAgo string
	// DearNow says that NowSQL used often in one statement costs more than reading the clock first.
	DearNow bool
	// Milliseconds is the expression for the time from scheduled_run_time to a parameter, at least 0.
	Milliseconds string
	// Writers is how many write transactions, such as a worker's rounds, gain from running in parallel.
	Writers int
	// SetSign makes {sign} the default of a jobs table's rank_sign, without a copy. The session then waits a second for a row lock.
	SetSign string
	// ColumnsOf is the query for the definitions of the columns of a table, with its name as the parameter.
	ColumnsOf string
	// AnyBytes says that a text may hold any bytes, because the engine doesn't enforce UTF-8.
	AnyBytes bool
	// lastIDIsFirst says that the driver reports the first id of a multi-row insert, not the last.
	lastIDIsFirst bool
	// StillClock says that Now stands still between statements sent together, whatever they wait for.
	StillClock bool
	// LocalLocks says that only writes of the same row conflict on different nodes, and that other locks hold on their node.
	LocalLocks bool
	// idStep is the query for the distance between the ids of one multi-row insert on a connection; if empty, it is 1.
	idStep string
	// IDsByKey says that ids of a multi-row insert can't be counted: read them back by the rows' keys.
	IDsByKey bool
	SQLDir   string
	driver   string
}

// Index makes a query use an index of a table. Index names have the table's name and a dollar, which no table name has.
func (d Dialect) Index(table, name string) string { return fmt.Sprintf(d.byIndex, table+"$"+name) }

// Apart is d for a server that accepts one statement at a time.
func (d Dialect) Apart() Dialect {
	d.together = false
	return d
}

// Batch is how many bytes of texts may go into one statement with others: quoting may double them.
func (d Dialect) Batch() int { return min(1<<20, cmp.Or(d.Packet, math.MaxInt)/4) }

// TimeText reads an expression's times, for a Time.
func (d Dialect) TimeText(expression string) string { return fmt.Sprintf(d.timeText, expression) }

// TimeColumn reads a column's times, for a Time.
func (d Dialect) TimeColumn(name string) string { return fmt.Sprintf(d.timeColumn, name) }

// TimeColumns is a SELECT list of time columns. ORDER BY on one of them needs the table's name, or it sorts by the text.
func (d Dialect) TimeColumns(names ...string) string {
	return strings.Join(texts.Map(names, func(name string) string { return d.TimeColumn(name) + " AS " + name }), ", ")
}

// MySQL is the dialect of MySQL and MariaDB.
var MySQL = Dialect{
	Engine:       "mysql",
	byIndex:      "FORCE INDEX (%s)",
	ByID:         "FORCE INDEX (PRIMARY)",
	ByKey:        "FORCE INDEX (PRIMARY)",
	TypesOfClaim: "status, shard, part, job_type",
	Explain:      "EXPLAIN FORMAT=TRADITIONAL ", // explain_format may change the default
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
	DayAgo:       "UTC_TIMESTAMP(6) - INTERVAL 1 DAY",
	Milliseconds: "GREATEST(0, TIMESTAMPDIFF(MICROSECOND, scheduled_run_time, ?) DIV 1000)",
	Writers:      2,
	SetSign:      "ALTER TABLE {jobs} ALTER COLUMN rank_sign SET DEFAULT {sign};\nSET innodb_lock_wait_timeout = 1",
	// a dump may change the character set of literals
	ColumnsOf: "SELECT CONCAT_WS(' ', column_name, column_type, is_nullable, column_default, REPLACE(REPLACE(generation_expression, '_ascii', '_utf8mb4'), '_binary', '_utf8mb4')," +
		" collation_name, extra) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ? ORDER BY ordinal_position",
	lastIDIsFirst: true,
	idStep:        "SELECT @@auto_increment_increment",
	SQLDir:        "sql/mysql",
	driver:        "mysql",
}

// Galera is the MySQL dialect on a Galera node. Nodes number rows in steps of the cluster's size, which may change within a
// transaction. SKIP LOCKED has crashed a node while it applied others' writes (MariaDB 10.11.14), so it is a last resort. A
// transaction may lose to another node's between two statements sent together. The server then silently rolls it back,
// executes the later statements, and commits (MariaDB 10.11.19, once in 100 when three nodes write the same rows). So each
// statement goes alone.
func Galera() Dialect {
	d := MySQL.Apart()
	d.waitsFirst, d.IDsByKey, d.StillClock, d.LocalLocks = true, true, true, true
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
	// With _texttotime the driver parses every text that looks like a time, except in columns declared TEXT.
	timeText:   "CAST(%s AS BLOB)",
	timeColumn: "%s",
	Writers:    1,
	// as https://sqlite.org/lang_altertable.html#otheralter says; the view tells other connections of the change
	SetSign: "PRAGMA writable_schema = ON;\nUPDATE sqlite_master SET sql = REPLACE(REPLACE(REPLACE(sql, 'DEFAULT 0 NOT', 'DEFAULT {sign} NOT')," +
		" 'DEFAULT 1 NOT', 'DEFAULT {sign} NOT'), 'DEFAULT -1 NOT', 'DEFAULT {sign} NOT') WHERE type = 'table' AND name = '{jobs}';\nPRAGMA writable_schema = RESET;\nCREATE VIEW {jobs}$order AS SELECT 1;\nDROP VIEW {jobs}$order",
	ColumnsOf: "SELECT REPLACE(sql, name, '') FROM sqlite_master WHERE type = 'table' AND name = ?",
	AnyBytes:  true,
	NowSQL:    "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')",
	DayAgo:    "(strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 day') || '000')",
	DearNow:   true,
	// SQLite's clock has whole milliseconds.
	Milliseconds: "MAX(0, CAST(ROUND((julianday(?) - julianday(scheduled_run_time)) * 86400000) AS INTEGER))",
	SQLDir:       "sql/sqlite",
	driver:       "sqlite",
}
