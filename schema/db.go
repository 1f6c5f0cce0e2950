// Package schema is everything that hipq knows about databases as such: opening one, what differs between the engines,
// transactions, the names and layouts of the tables and how they are created and migrated.
package schema

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/jmoiron/sqlx"
)

// Options say which database to open. It is a section of the config, so its fields have the config's names.
type Options struct {
	// Driver is sqlite or mysql (MySQL or MariaDB).
	Driver string
	// Path is SQLite's file.
	Path string
	// Mode are the rights of SQLite's file, where Open creates it; 0 is 0600.
	Mode fs.FileMode
	// DSN is MySQL's data source name in go-sql-driver's form: user:password@tcp(host:3306)/database. Never logged.
	DSN string
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

// Check finds out what Open would refuse before it asks the database: a DSN that can't be, files of TLS that can't be read.
// The error is an ErrConfig.
func (o Options) Check() error {
	if o.Driver != mysqlDialect.Name {
		return nil
	}
	_, err := o.connector()
	return err
}

// DB is a database with the names of one instance's tables. It is safe for concurrent use.
type DB struct {
	*sqlx.DB
	Dialect
	Names
	warn func(error)
}

// Open opens the database and talks to it once, so that one that is down or too old is known at once.
func Open(ctx context.Context, o Options, names Names) (*DB, error) {
	var db *DB
	var err error
	switch o.Driver {
	case sqliteDialect.Name:
		db, err = openSQLite(ctx, o)
	case mysqlDialect.Name:
		db, err = openMySQL(ctx, o)
	default:
		return nil, fmt.Errorf("open the database: unknown driver %q (sqlite or mysql)", o.Driver)
	}
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	db.Names, db.warn = names, o.Warn
	return db, nil
}

// Warn tells of a row that counts for nothing: see Options.
func (db *DB) Warn(err error) {
	if db.warn != nil {
		db.warn(err)
	}
}

// readClock is the query for the database's clock, as text: an application's connection may take times for its own zone's.
func (d Dialect) readClock() string { return "SELECT CAST(" + d.Now + " AS CHAR)" }

// Clock reads the database's clock, in UTC. It is the only clock that decides: hosts' clocks may be wrong.
func (db *DB) Clock(ctx context.Context) (time.Time, error) {
	var now string
	if err := db.GetContext(ctx, &now, db.readClock()); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return ParseTime(now)
}
