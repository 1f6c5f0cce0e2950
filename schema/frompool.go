package schema

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"

	"github.com/hipq/hipq/internal/engine"
)

// FromPool is the database of an application's own pool: of go-sql-driver/mysql, or of modernc.org/sqlite; ErrConfig if it is another
// driver's, or a driver's that is wrapped. It talks to the database once or twice, so that one that is down or too old is known
// at once; it may be repeated.
//
// The pool may have any options of its DSN, and its sessions any settings. Each transaction of hipq's own, and each read, takes
// a connection, sets up its session, and puts everything back before the pool has it again: on MariaDB and MySQL that is three
// round trips, which EnqueueTx doesn't need; on SQLite some microseconds, but it parses each statement again. So an application
// that only enqueues wants FromPool, and a busy worker Open. Who holds all connections of the pool keeps hipq waiting: within a
// transaction of yours, call nothing but EnqueueTx, and leave a worker four connections besides those of its handlers. A
// database in memory is one for each connection, so its pool has SetMaxOpenConns(1).
//
// Close leaves the pool open.
func FromPool(ctx context.Context, pool *sql.DB, names Names) (*DB, error) {
	if err := names.check(); err != nil {
		return nil, err
	}
	if pool == nil {
		return nil, fmt.Errorf("%w: the application's pool is nil", ErrConfig)
	}
	var db *engine.DB
	var err error
	switch d := pool.Driver().(type) {
	case *mysql.MySQLDriver:
		db = engine.Borrow(pool, engine.MySQL, engine.Session{Save: saveSession, Set: setSession + hurried, Restore: restore("SET ", ", "), Inline: true})
		err = knowPool(ctx, db)
	case *sqlite.Driver:
		db = engine.Borrow(pool, engine.SQLite, engine.Session{Save: savePragmas, Set: setPragmas, Restore: restore("PRAGMA ", "; PRAGMA ")})
		err = engine.Patiently(ctx, engine.Retryable, func() error { return checkEncoding(ctx, db) })
	default:
		return nil, fmt.Errorf("%w: the application's pool is of %T; hipq knows go-sql-driver/mysql and modernc.org/sqlite", ErrConfig, d)
	}
	if err == nil {
		return &DB{SQL: db, Names: names, fit: &sync.Map{}}, nil
	}
	if errors.Is(err, engine.ErrNotPlain) {
		err = fmt.Errorf("%w: the application's pool: %w", ErrConfig, err)
	}
	_ = db.Close() // it has no connections of its own
	return nil, fmt.Errorf("use the application's pool: %w", err)
}

// knowPool finds out what server the pool leads to, and that hipq's sessions there have the character set in which it writes
// parameters into statements.
func knowPool(ctx context.Context, db *engine.DB) error {
	d, err := knowServer(ctx, db)
	if err != nil {
		return err
	}
	db.Dialect = d.Apart()
	var client, connection string
	var database sql.NullString
	err = db.QueryRowContext(ctx, "SELECT @@character_set_client, @@character_set_connection, DATABASE()").Scan(&client, &connection, &database)
	switch {
	case err != nil:
		return err
	case client != "utf8mb4" || connection != "utf8mb4":
		return fmt.Errorf("%w: the server keeps a connection's character set at %q, hipq needs utf8mb4", ErrConfig, client)
	case !database.Valid:
		return fmt.Errorf("%w: the DSN of the application's pool names no database: user:password@tcp(host:3306)/database", ErrConfig)
	}
	return nil
}

// saveSession reads all that setSession sets, and hurried. The collation comes last, for the character sets set it too.
const saveSession = "SELECT @@character_set_client AS character_set_client, @@character_set_results AS character_set_results," +
	" @@character_set_connection AS character_set_connection, @@collation_connection AS collation_connection, @@sql_mode AS sql_mode," +
	" @@autocommit AS autocommit, @@completion_type AS completion_type, @@unique_checks AS unique_checks," +
	" @@sql_select_limit AS sql_select_limit, @@sql_safe_updates AS sql_safe_updates, @@sql_auto_is_null AS sql_auto_is_null," +
	" /*M! @@tx_isolation AS tx_isolation, @@in_predicate_conversion_threshold AS in_predicate_conversion_threshold," +
	" @@idle_transaction_timeout AS idle_transaction_timeout, @@check_constraint_checks AS check_constraint_checks, */" +
	" /*!80000 @@transaction_isolation AS transaction_isolation, @@wait_timeout AS wait_timeout," +
	" @@information_schema_stats_expiry AS information_schema_stats_expiry, */ @@time_zone AS time_zone," +
	" @@innodb_lock_wait_timeout AS innodb_lock_wait_timeout, @@lock_wait_timeout AS lock_wait_timeout"

// The pragmas are those of openSQLite that are a connection's. That the file has a WAL, and how much is cached, is the
// application's to say.
const (
	savePragmas = "SELECT timeout AS busy_timeout, synchronous, ignore_check_constraints" +
		" FROM pragma_busy_timeout, pragma_synchronous, pragma_ignore_check_constraints"
	setPragmas = "PRAGMA busy_timeout = 250; PRAGMA synchronous = FULL; PRAGMA ignore_check_constraints = ON"
)

func checkEncoding(ctx context.Context, db *engine.DB) error {
	var encoding string
	if err := db.GetContext(ctx, &encoding, "PRAGMA encoding"); err != nil {
		return err
	}
	if encoding != "UTF-8" {
		return fmt.Errorf("%w: the file's texts are %s, hipq needs UTF-8", ErrConfig, encoding)
	}
	return nil
}

// restore makes the statement, of a verb and assignments, that puts back what a session had.
func restore(verb, between string) func(names []string, values []driver.Value) (string, error) {
	return func(names []string, values []driver.Value) (string, error) {
		list := make([]string, len(names))
		for i, value := range values {
			if v, ok := value.([]byte); ok {
				value = string(v)
			}
			text, err := engine.Literal(value)
			if err != nil {
				return "", fmt.Errorf("the session's %s is a %T", names[i], value)
			}
			list[i] = names[i] + " = " + text
		}
		return verb + strings.Join(list, between), nil
	}
}
