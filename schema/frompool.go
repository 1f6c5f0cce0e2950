package schema

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"

	"github.com/hipq/hipq/internal/engine"
)

// FromPool uses an application's own pool, of go-sql-driver/mysql or modernc.org/sqlite. For another driver, or a wrapped
// one, the error is ErrConfig. FromPool sends one or two queries, so it fails if the database is down or too old. It may
// be repeated.
//
// The DSN may have any options, and the sessions any settings. Each transaction and each read of hipq takes a
// connection, sets up its session, and restores it afterwards. On MariaDB and MySQL this costs three round trips, which
// EnqueueTx saves. On SQLite it costs microseconds, but each statement is parsed again. So use FromPool in an
// application that only enqueues, and Open for a busy worker. If your code holds every pooled connection, hipq blocks:
// within your transaction, call only EnqueueTx (an Enqueue there ends with ErrHeld after a second or two), and leave a worker
// four connections besides those of its handlers; on MariaDB and MySQL it refuses a smaller pool. An in-memory database exists
// per connection, so its pool needs SetMaxOpenConns(1).
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
		db = engine.Borrow(pool, engine.MySQL, engine.Session{Save: saveSession, Set: setSession + lent, Restore: restore("SET ", ", "), Inline: true})
		err = knowPool(ctx, db)
	case *sqlite.Driver:
		db = engine.Borrow(pool, engine.SQLite, engine.Session{Save: savePragmas, Set: setPragmas, Restore: restore("PRAGMA ", "; PRAGMA ")})
		err = engine.Patiently(ctx, engine.Retryable, func() error { return checkEncoding(ctx, db) })
	default:
		return nil, fmt.Errorf("%w: the application's pool is of %T; hipq knows go-sql-driver/mysql and modernc.org/sqlite", ErrConfig, d)
	}
	if err == nil {
		return &DB{SQL: db, Names: names}, nil
	}
	if errors.Is(err, engine.ErrNotPlain) {
		err = fmt.Errorf("%w: the application's pool: %w", ErrConfig, err)
	}
	_ = db.Close() // closes no connection of the pool
	return nil, fmt.Errorf("use the application's pool: %w", err)
}

// knowPool identifies the pool's server. It checks that hipq's sessions have the character set for interpolated
// parameters.
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

// saveSession reads all that setSession and hurried set. The collation comes last, because the character sets change it.
const saveSession = "SELECT @@character_set_client AS character_set_client, @@character_set_results AS character_set_results," +
	" @@character_set_connection AS character_set_connection, @@collation_connection AS collation_connection, @@sql_mode AS sql_mode," +
	" @@autocommit AS autocommit, @@completion_type AS completion_type, @@unique_checks AS unique_checks," +
	" @@sql_select_limit AS sql_select_limit, @@sql_safe_updates AS sql_safe_updates, @@sql_auto_is_null AS sql_auto_is_null," +
	" /*M! @@tx_isolation AS tx_isolation, @@in_predicate_conversion_threshold AS in_predicate_conversion_threshold," +
	" @@idle_transaction_timeout AS idle_transaction_timeout, @@check_constraint_checks AS check_constraint_checks, */" +
	" /*!80000 @@transaction_isolation AS transaction_isolation, @@wait_timeout AS wait_timeout," +
	" @@information_schema_stats_expiry AS information_schema_stats_expiry, */ @@time_zone AS time_zone," +
	" @@innodb_lock_wait_timeout AS innodb_lock_wait_timeout, @@lock_wait_timeout AS lock_wait_timeout"

// These pragmas are the per-connection ones of openSQLite. The application chooses WAL and the cache size.
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
		return fmt.Errorf("%w: the file's encoding is %s; hipq needs UTF-8", ErrConfig, encoding)
	}
	return nil
}

// restore builds the statement, of a verb and assignments, that restores a session.
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
