// Package crash tests what hipq's processes tell people when something else goes wrong, and what they cost beside a long
// transaction. mutants.sh shows that tests find bugs. The processes themselves are killed and stopped by internal/proof.
package crash

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/hipq/hipq/internal/dbtest"
)

// build builds the program.
func build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "hipq")
	out, err := exec.Command("go", "build", "-o", program, "github.com/hipq/hipq").CombinedOutput()
	dbtest.Require(t, err == nil, "build: %v\n%s", err, out)
	return program
}

// hipq is the program with a config.
type hipq struct{ program, config string }

func configure(t *testing.T, program, driver, source string, limit int) hipq {
	t.Helper()
	h := hipq{program, filepath.Join(t.TempDir(), "hipq.yaml")}
	text := fmt.Sprintf(`
name: crash
database: %s
queues:
  - name: mail
    throttle_limit: %d
    job_types:
      - {name: quick, handler: {exec: ["true"]}}
      - {name: sent, async: true, handler: {exec: ["true"]}}
`, dbtest.Section(driver, source), limit)
	dbtest.OK(t, os.WriteFile(h.config, []byte(text), 0o600))
	return h
}

func (h hipq) command(args ...string) *exec.Cmd {
	c := exec.Command(h.program, append(args, "--config", h.config)...)
	c.Env = append(os.Environ(), "HOME=", "XDG_CACHE_HOME=") // without a folder for outages, each worker prints why it ended
	return c
}

// mustRun runs a command. Standard error must be empty, because cron would mail it.
func (h hipq) mustRun(t *testing.T, args ...string) {
	t.Helper()
	var complaints bytes.Buffer
	c := h.command(args...)
	c.Stderr = &complaints
	err := c.Run()
	dbtest.Require(t, err == nil && complaints.Len() == 0, "hipq %s: %v: %s", strings.Join(args, " "), err, complaints.String())
}

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
