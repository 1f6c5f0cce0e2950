package crash

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/hipq/hipq/internal/dbtest"
)

// database reads hipq's tables with its own SQL, so that the tested code is not its own witness.
type database struct {
	*sql.DB
	sqlite bool
}

func openDatabase(t *testing.T, driver, source string) *database {
	t.Helper()
	if driver == "sqlite" {
		source = "file:" + source + "?_pragma=busy_timeout(20000)"
	}
	db := dbtest.Must(sql.Open(driver, source))(t)
	t.Cleanup(func() { _ = db.Close() })
	return &database{db, driver == "sqlite"}
}

// sourceOf creates a database.
func sourceOf(t *testing.T, driver string) string {
	t.Helper()
	if driver == "sqlite" {
		return dbtest.SQLite(t)
	}
	return dbtest.MySQL(t)
}

// session runs statements on a separate connection. letGo runs end on it.
func (d *database) session(t *testing.T, end string, begin ...string) (letGo func()) {
	t.Helper()
	conn := dbtest.Must(d.Conn(context.Background()))(t)
	for _, s := range begin {
		dbtest.Must(conn.ExecContext(t.Context(), s))(t)
	}
	return func() {
		_, err := conn.ExecContext(context.Background(), end)
		err = errors.Join(err, conn.Close())
		dbtest.Ensure(t, err == nil || errors.Is(err, sql.ErrConnDone), "%v", err)
	}
}

// hold keeps a transaction with this statement open until letGo.
func (d *database) hold(t *testing.T, statement string) (letGo func()) {
	t.Helper()
	if d.sqlite {
		return d.session(t, "ROLLBACK", "BEGIN IMMEDIATE")
	}
	return d.session(t, "ROLLBACK", "BEGIN", statement)
}
