// Package schema opens the database with hipq's tables, names the tables, and creates and migrates them.
package schema

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/files"
)

// Options say which database to open. They are a section of the config, so the fields have the config's names.
type Options struct {
	// Driver is sqlite or mysql (MySQL or MariaDB); required.
	Driver string
	// Path is the SQLite file; required by sqlite.
	Path string
	// Mode is the permission bits of a SQLite file that Open creates; 0 means 0600.
	Mode fs.FileMode
	// Parameters are added to hipq's own in SQLite's DSN, for example a VFS; nil means none. A pragma runs after hipq's.
	Parameters url.Values
	// DSN is MySQL's data source name in go-sql-driver's form: user:password@tcp(host:3306)/database; required by mysql. It is
	// never logged.
	DSN string
	// DSNFile is the file that DSN is from; empty means none. Each new connection takes user and password from it, so that a rotated
	// password needs no new start.
	DSNFile string
	// Nodes, if set, are servers with the same data, each HOST or HOST:PORT, or a socket. They replace the address in the DSN. A
	// host starts with the node that NodeOf picks, and falls back to the others in turn.
	Nodes []string
	// Host is the host name for NodeOf; empty means this host's.
	Host string
	// TLS, if not nil, encrypts the connection to MySQL.
	TLS *TLS
	// Create lets Open create a SQLite file. Only init sets it: under cron, a wrong path must fail.
	Create bool
	// Patient allows slow answers, for commands that read or delete much.
	Patient bool
	// Warn, if not nil, gets invalid rows in hipq's own tables, which hipq ignores: somebody must have edited them. It
	// may get the same row repeatedly, and from several goroutines at once.
	Warn func(error)
}

// Check finds what Open would refuse without asking the database: an invalid DSN, unreadable TLS files, a SQLite file
// that another user could have written. The error is an ErrConfig.
func (o Options) Check() error {
	if o.Driver == engine.MySQL.Engine {
		_, err := o.connector()
		return err
	}
	switch err := files.CheckDatabase(o.Path); {
	case errors.Is(err, files.ErrUntrusted):
		return fmt.Errorf("%w: database.path %w", ErrConfig, err)
	case err != nil:
		return fmt.Errorf("%w: database.path: %w", ErrConfig, err)
	}
	return nil
}

// DB is a database with the table names of one instance. It is safe for concurrent use.
type DB struct {
	Names
	// SQL is the database itself: transactions, queries, and the differences between the engines.
	SQL  *engine.DB
	warn func(error)
	// nodes is the number of Options.Nodes; 0 if there are none.
	nodes int
}

// Open opens the database with its own connections. It sends one query, so a database that is down or too old fails
// here. FromPool uses an application's connections instead.
func Open(ctx context.Context, o Options, names Names) (*DB, error) {
	if err := names.check(); err != nil {
		return nil, err
	}
	open, ok := map[string]func(context.Context, Options) (*engine.DB, error){
		engine.SQLite.Engine: openSQLite, engine.MySQL.Engine: openMySQL,
	}[o.Driver]
	if !ok {
		return nil, fmt.Errorf("open the database: unknown driver %q (sqlite or mysql)", o.Driver)
	}
	db, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return &DB{SQL: db, Names: names, warn: o.Warn, nodes: len(o.Nodes)}, nil
}

// Close closes the connections that Open made; later calls return errors. After FromPool it leaves the application's
// pool open.
func (db *DB) Close() error { return db.SQL.Close() }

// Warn reports an invalid row that hipq ignores: see Options.
func (db *DB) Warn(err error) {
	if db.warn != nil {
		db.warn(err)
	}
}

// Lacks reports whether err means that the table of a queue is missing, or lacks an index.
func (db *DB) Lacks(err error, queue string) bool {
	table, unnamed := db.CheckQueue(queue)
	// in every engine's message, the name stands alone or before the dollar of an index
	names := strings.FieldsFunc(engine.Missing(err), func(r rune) bool { return !strings.ContainsRune(letters+"_0123456789", r) })
	return unnamed == nil && slices.Contains(names, table)
}

// unopened is a DB without a database, for its statements.
func unopened(driver string, names Names) *DB {
	d := engine.SQLite
	if driver == engine.MySQL.Engine {
		d = engine.MySQL
	}
	return &DB{SQL: &engine.DB{Dialect: d}, Names: names}
}
