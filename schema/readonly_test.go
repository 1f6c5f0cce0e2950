package schema_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
)

// What a read-only server refuses is done as soon as it writes again, on a new connection, which may be one to another server;
// until then the error is the server's own.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	source := dbtest.OwnMySQL(t)
	root := dbtest.Open(t, "mysql", source)
	exec := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := root.SQL.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	exec("CREATE USER plain@'%' IDENTIFIED BY 'x'", "GRANT ALL ON *.* TO plain@'%'", "REVOKE SUPER /*M!, READ_ONLY ADMIN */ /*!80000 , CONNECTION_ADMIN */ ON *.* FROM plain@'%'")
	cfg, err := mysql.ParseDSN(source)
	if err != nil {
		t.Fatal(err)
	}
	cfg.User, cfg.Passwd = "plain", "x"
	db := dbtest.Open(t, "mysql", cfg.FormatDSN())
	connection := func() (id int64) {
		t.Helper()
		if err := db.SQL.GetContext(t.Context(), &id, "SELECT CONNECTION_ID()"); err != nil {
			t.Fatal(err)
		}
		return id
	}
	write := func(ctx context.Context) error {
		return db.SQL.Tx(ctx, func(tx *engine.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO shop_queues (queue) VALUES ('x')")
			return err
		})
	}
	first := connection()
	exec("SET GLOBAL read_only = 1")
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := write(short); err == nil || !strings.Contains(err.Error(), "read-only") || !engine.IsAnswer(err) {
		t.Errorf("the error is %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- write(t.Context()) }()
	time.Sleep(time.Second)
	exec("SET GLOBAL read_only = 0")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if connection() == first {
		t.Error("the connection is the same")
	}
	var n int
	if err := root.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_queues WHERE queue = 'x'"); err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
}
