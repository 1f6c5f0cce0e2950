// Package schema is the database with hipq's tables in it: opening it, the names and layouts of the tables, and how they are
// created and migrated.
package schema

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/files"
)

// Options say which database to open. It is a section of the config, so its fields have the config's names.
type Options struct {
	// Driver is sqlite or mysql (MySQL or MariaDB).
	Driver string
	// Path is SQLite's file.
	Path string
	// Mode are the rights of SQLite's file, where Open creates it; 0 is 0600.
	Mode fs.FileMode
	// Parameters are those of SQLite's DSN besides hipq's own, such as a VFS. A pragma comes after hipq's.
	Parameters url.Values
	// DSN is MySQL's data source name in go-sql-driver's form: user:password@tcp(host:3306)/database. Never logged.
	DSN string
	// Nodes are servers that have the same data, HOST or HOST:PORT each (or sockets, as the DSN), instead of the address in the
	// DSN. A host begins with that of NodeOf, and falls back to the others in turn.
	Nodes []string
	// Host is the name of the host that begins so; empty is this one's.
	Host string
	// TLS, if not nil, encrypts the connection to MySQL.
	TLS *TLS
	// Create lets Open create a SQLite file. Only init sets it: a wrong path under cron must not pass in silence.
	Create bool
	// Patient lets the server take long for an answer: for commands that read or delete much.
	Patient bool
	// Warn, if not nil, is told of rows in hipq's own tables that can't be what they should, and count for nothing: a hand must
	// have written them. It may be told more than once of the same, and by several goroutines at once.
	Warn func(error)
}

// Check finds out what Open would refuse before it asks the database: a DSN that can't be, files of TLS that can't be read, a SQLite
// file that another user could have written. The error is an ErrConfig.
func (o Options) Check() error {
	if o.Driver == engine.MySQL.Engine {
		_, err := o.connector()
		return err
	}
	switch err := files.CheckDatabase(o.Path); {
	case errors.Is(err, files.ErrUntrusted):
		return fmt.Errorf("%w: database.path: %s %w", ErrConfig, o.Path, err)
	case err != nil:
		return fmt.Errorf("%w: database.path: %w", ErrConfig, err)
	}
	return nil
}

// DB is a database with the names of one instance's tables. It is safe for concurrent use.
type DB struct {
	Names
	// SQL is the database as such: transactions, queries, and what differs between the engines.
	SQL  *engine.DB
	warn func(error)
	// fit is when units were found fit, by a queue with its order; the instance is one too.
	fit *sync.Map
	// nodes is of how many Options.Nodes one serves; 0 if there are none.
	nodes int
}

// Open opens the database, by connections of its own, and talks to it once, so that one that is down or too old is known at once.
// FromPool takes those of an application.
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
	return &DB{SQL: db, Names: names, warn: o.Warn, fit: &sync.Map{}, nodes: len(o.Nodes)}, nil
}

// Close closes the connections that Open has made. After FromPool there are none: the application's pool stays open. Who still works
// with the database then gets errors.
func (db *DB) Close() error { return db.SQL.Close() }

// Warn tells of a row that counts for nothing: see Options.
func (db *DB) Warn(err error) {
	if db.warn != nil {
		db.warn(err)
	}
}

// Lacks says whether err means that the table of a queue is not there, or lacks an index.
func (db *DB) Lacks(err error, queue string) bool {
	table, unnamed := db.CheckQueue(queue)
	// in whatever an engine says of it the name stands alone, or before the dollar of an index
	names := strings.FieldsFunc(engine.Missing(err), func(r rune) bool { return !strings.ContainsRune(letters+"_0123456789", r) })
	return unnamed == nil && slices.Contains(names, table)
}

// unopened is a database that is not there: its statements are.
func unopened(d engine.Dialect, names Names) *DB {
	return &DB{SQL: &engine.DB{Dialect: d}, Names: names, fit: &sync.Map{}}
}
