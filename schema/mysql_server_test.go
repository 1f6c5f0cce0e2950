package schema

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
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

func TestVersions(t *testing.T) {
	for version, want := range map[string]string{
		"10.6.0-MariaDB": "", "5.5.5-10.11.19-MariaDB-log": "", "8.0.13": "", "9.7.4": "", "8.4.0-35.1": "",
		"10.5.27-MariaDB":              "MariaDB 10.5.27, hipq needs 10.6.0 or newer",
		"8.0.12":                       "MySQL 8.0.12, hipq needs 8.0.13 or newer",
		"5.7.25-TiDB-v7.5.0":           "TiDB",
		"8.4.6-Vitess":                 "Vitess",
		"8.0.30-Vitess":                "docs/explanation/scaling.md",
		"8.0.11-TiDB-v9.0.0-dev-dirty": "TiDB",
	} {
		err := checkVersion(version)
		if want == "" && err != nil {
			t.Errorf("%s: %v", version, err)
		}
		if want != "" && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", version, err)
		}
	}
}
