package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"modernc.org/sqlite"

	"github.com/hipq/hipq/internal/engine"
)

// create makes an empty file with these rights, whatever the umask, if there is none: SQLite's own would be everybody's to
// read. The files beside it get its rights. If that can't be, SQLite says why.
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
		return nil, fmt.Errorf("%w: database.path: %s is no regular file", ErrConfig, o.Path)
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Create {
		create(o.Path, cmp.Or(o.Mode, 0o600))
	} else if _, err := os.Stat(o.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no database file %s", ErrAbsent, o.Path)
	}
	// Pragmas stand here because by Exec they would reach one pooled connection only. Transactions begin IMMEDIATE: one
	// that read first and wrote later would fail at once, without regard to busy_timeout. That is short, for the longer SQLite
	// waits, the more seldom it looks: what waits longer is repeated. The cache, 16 MiB where 2 are the
	// default, holds the inner pages of a table of some million jobs; it is taken as it is needed. The constraints are for rows that
	// others write: of its own hipq makes sure before, and they cost a fifth of a write.
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
	// The file has one writer at a time; a few more connections serve readers.
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	// the switch to WAL, once in a file's life, doesn't wait for another that does the same; and the one that closes the file last, or
	// recovers it after a crash, has it alone for as long as that takes
	if err := engine.Patiently(ctx, engine.Retryable, func() error { return db.PingContext(ctx) }); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}
