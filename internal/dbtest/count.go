package dbtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// Sent records what is sent to a database, one text for each round trip.
type Sent struct {
	mu    sync.Mutex
	texts []string
}

// During returns what is sent while f runs.
func (s *Sent) During(f func()) []string {
	s.mu.Lock()
	before := len(s.texts)
	s.mu.Unlock()
	f()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts[before:]
}

// Statements counts the statements in what was sent, including those sent together.
func Statements(texts []string) (n int) {
	for _, text := range texts {
		n += 1 + strings.Count(text, ";")
	}
	return n
}

// Count returns the same database on connections that record what is sent.
func Count(t testing.TB, db *schema.DB, source string) (*schema.DB, *Sent) {
	t.Helper()
	c := counting{driver: db.SQL.Driver(), source: "file:" + source + "?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)"}
	c.sent = new(Sent)
	if db.SQL.Engine == "mysql" {
		cfg := Must(mysql.ParseDSN(source))(t)
		cfg.InterpolateParams, cfg.MultiStatements, cfg.ClientFoundRows = true, true, true
		c.source = cfg.FormatDSN()
	}
	counted := *db
	counted.SQL = engine.On(sql.OpenDB(c), db.SQL.Dialect)
	t.Cleanup(func() { _ = counted.Close() })
	return &counted, c.sent
}

// counting makes connections that record what is sent.
type counting struct {
	driver driver.Driver
	source string
	sent   *Sent
}

// Driver implements driver.Connector.
func (c counting) Driver() driver.Driver { return c.driver }

// Connect implements driver.Connector.
func (c counting) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.source)
	if err != nil {
		return nil, err
	}
	return countingConn{conn, c.sent}, nil
}

type countingConn struct {
	driver.Conn
	sent *Sent
}

func (c countingConn) note(query string) {
	c.sent.mu.Lock()
	defer c.sent.mu.Unlock()
	c.sent.texts = append(c.sent.texts, query)
}

// QueryContext implements driver.QueryerContext.
func (c countingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.note(query)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

// ExecContext implements driver.ExecerContext.
func (c countingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.note(query)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

// BeginTx implements driver.ConnBeginTx.
func (c countingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}
