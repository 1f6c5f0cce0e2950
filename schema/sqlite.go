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
