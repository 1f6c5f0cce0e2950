package schema

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/engine"
)

// behind is a cluster node whose reads wait for what the others have committed until their time is up.
type behind struct {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.Pinger
}

func (b behind) Connect(context.Context) (driver.Conn, error) { return b, nil }
func (behind) Driver() driver.Driver                          { return mysql.MySQLDriver{} }
func (behind) IsValid() bool                                  { return true }
func (behind) ResetSession(context.Context) error             { return nil }
func (behind) Close() error                                   { return nil }

func (behind) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return nil, &mysql.MySQLError{Number: 1205, Message: "Lock wait timeout exceeded; try restarting transaction"}
}

// TestNodeIsBehind: the first questions lock nothing, so a lock timeout means that the node is behind.
func TestNodeIsBehind(t *testing.T) {
	_, err := knowServer(t.Context(), engine.New(behind{}, engine.MySQL))
	kind, _ := Diagnose(err)
	if !errors.Is(err, engine.ErrBehind) || kind != TryLater {
		t.Error(err)
	}
}
