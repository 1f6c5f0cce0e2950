// Package schema opens the database with hipq's tables, names the tables, and creates and migrates them.
package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"modernc.org/sqlite"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/files"
)

// Options say which database to open. They are a section of the config, so the fields have the config's names.
type Options struct {
	// Driver is sqlite or mysql (MySQL or MariaDB); required.
	Driver string `key:"driver" words:"sqlite mysql"`
	// Path is the SQLite file; required by sqlite.
	Path string `key:"path" file:"yes" default:"hipq.db"`
	// Mode is the permission bits of a SQLite file that Open creates; 0 means 0600.
	Mode fs.FileMode
	// Parameters are added to hipq's own in SQLite's DSN, for example a VFS; nil means none. A pragma runs after hipq's.
	Parameters url.Values
	// DSN is MySQL's data source name in go-sql-driver's form: user:password@tcp(host:3306)/database; required by mysql. It is
	// never logged.
	DSN string `key:"dsn" hide:"dsn"`
	// DSNFile is the file that DSN is from; empty means none. Each new connection takes user and password from it, so that a rotated
	// password needs no new start.
	DSNFile string `key:"dsn_file" file:"yes"`
	// Nodes, if set, are servers with the same data, each HOST or HOST:PORT, or a socket. They replace the address in the DSN. A
	// host starts with the node that NodeOf picks, and falls back to the others in turn.
	Nodes []string `key:"nodes"`
	// Host is the host name for NodeOf; empty means this host's.
	Host string
	// TLS, if not nil, encrypts the connection to MySQL.
	TLS *TLS `key:"tls"`
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

// create creates a missing file with these permissions, whatever the umask, because SQLite would make it readable for
// all. The files beside it inherit them. If it fails, SQLite's own error says why.
func create(path string, mode fs.FileMode) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return
	}
	_ = f.Chmod(mode)
	_ = f.Close()
}

func openSQLite(ctx context.Context, o Options) (*engine.DB, error) {
	if o.Path == "" {
		return nil, fmt.Errorf("%w: database.path is empty", ErrConfig)
	}
	switch at, err := os.Stat(o.Path); {
	case err != nil: // handled below
	case at.IsDir():
		return nil, fmt.Errorf("%w: database.path: %s is a directory, not a file", ErrConfig, o.Path)
	case !at.Mode().IsRegular():
		return nil, fmt.Errorf("%w: database.path: %s is not a regular file", ErrConfig, o.Path)
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Create {
		create(o.Path, cmp.Or(o.Mode, 0o600))
	} else if _, err := os.Stat(o.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no database file %s", ErrAbsent, o.Path)
	}
	// Pragmas are in the DSN, because Exec would set them on one pooled connection only. Transactions begin IMMEDIATE:
	// one that first reads and then writes would fail at once, despite busy_timeout. The timeout is short, because
	// SQLite checks less often the longer it waits; hipq retries instead. The cache of 16 MiB (the default is 2) holds
	// the inner pages of a table with a few million jobs; memory is used only as needed. The constraints are for the rows
	// of others: hipq checks its own, and constraints cost a fifth of a write.
	parameters := url.Values{
		"mode":    {"rw"},
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(250)", "journal_mode(wal)", "synchronous(full)", "cache_size(-16384)", "ignore_check_constraints(1)"},
	}
	for name, values := range o.Parameters {
		parameters[name] = append(parameters[name], values...)
	}
	dsn := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: o.Path}).EscapedPath(), RawQuery: parameters.Encode()}).String()
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := engine.New(connector, engine.SQLite)
	// The file has one writer at a time; the other connections serve readers.
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	// the switch to WAL, once per file, doesn't wait for another process that does the same; the last process to close
	// the file, or one that recovers it after a crash, locks it meanwhile
	if err := engine.Patiently(ctx, engine.Retryable, func() error { return db.PingContext(ctx) }); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

var (
	// ErrConfig means that the database can't be used as configured; somebody must change something.
	ErrConfig = errors.New("database configuration")
	// ErrNotMigrated means that tables or the SQLite file are missing or outdated; hipq init fixes it. The wrapping
	// error says which.
	ErrNotMigrated = errors.New("the database is not initialised")
	// ErrAbsent means that nothing of hipq exists: no SQLite file, or no tables. It is an ErrNotMigrated.
	ErrAbsent = fmt.Errorf("%w", ErrNotMigrated)
	// ErrNewer means that a newer hipq made the tables.
	ErrNewer = errors.New("the tables are newer than this hipq")
	// ErrNoAnswer means that the database did not answer in time.
	ErrNoAnswer = errors.New("the database does not answer")
	// ErrHeld means that another transaction holds the needed locks.
	ErrHeld = errors.New("another transaction holds what this needs")
	// ErrTableTaken means that a table of this name belongs to another owner.
	ErrTableTaken = errors.New("the name is taken")
)

func newer(table string, version, known int) error {
	return fmt.Errorf("%w: table %s has version %d, and this hipq knows %d", ErrNewer, table, version, known)
}

// Trouble is the kind of remedy that a database error needs.
type Trouble = engine.Trouble

// The kinds of trouble.
const (
	// NoTrouble: not a database error.
	NoTrouble = engine.NoTrouble
	// TryLater: unreachable, busy, overloaded, starting, failing over, or a full disk.
	TryLater = engine.TryLater
	// Misconfigured: somebody must first change something: rights, names, files.
	Misconfigured = engine.Misconfigured
)

// IsFull reports whether err means that the database's disk is full.
func IsFull(err error) bool { return engine.IsFull(err) }

// Diagnose returns the kind of trouble of an error, and a remedy to print.
func Diagnose(err error) (Trouble, string) {
	switch {
	case errors.Is(err, ErrNotMigrated):
		return Misconfigured, "run hipq init"
	case errors.Is(err, ErrNoAnswer):
		return TryLater, "the database is busy, full, or can't be reached"
	case errors.Is(err, ErrHeld):
		_, found := engine.Diagnose(err)
		return TryLater, cmp.Or(found, "does an application keep one open?")
	case errors.Is(err, ErrNewer):
		return Misconfigured, "install the hipq that made them, or a newer one"
	case errors.Is(err, ErrConfig), errors.Is(err, ErrTableTaken), errors.Is(err, ErrName):
		return Misconfigured, ""
	}
	return engine.Diagnose(err)
}
