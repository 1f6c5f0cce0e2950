// Package sql tests the examples beside it, which contain no Go.
package sql

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// programs: each language has the same two programs.
var programs = []struct{ client, extension string }{{"python", ".py"}, {"php", ".php"}}

// TestExamples: an order and its job are enqueued in one transaction. The worker does its jobs, fails what it can't do,
// and goes on after its connection was lost. It ends in order when told to. Each program has only the rights that hipq init
// --print-grants lists. The signals of internal/proof test that it keeps its lock.
func TestExamples(t *testing.T) {
	dbtest.Long(t, "the race detector has nothing to see in other languages")
	hipq := filepath.Join(t.TempDir(), "hipq")
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", hipq, "../..").CombinedOutput()
	dbtest.Require(t, err == nil, "%v\n%s", err, out)
	for _, p := range programs {
		t.Run(p.client, func(t *testing.T) {
			t.Parallel()
			s := open(t, hipq, dbtest.Client(t, p.client), p.extension)
			s.enqueues()
			s.works()
		})
	}
}

type shop struct {
	t                 *testing.T
	db                *sql.DB
	client, extension string
	env               []string
	// grants are the lines that hipq init prints.
	grants []string
}

func open(t *testing.T, hipq, client, extension string) *shop {
	source := dbtest.MySQL(t)
	c := dbtest.Must(mysql.ParseDSN(source))(t)
	host, port, err := net.SplitHostPort(c.Addr)
	dbtest.OK(t, err)
	dir := t.TempDir()
	s := &shop{t: t, client: client, extension: extension, env: append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1",
		"DB_HOST="+host, "DB_PORT="+port, "DB_NAME="+c.DBName)}
	text := fmt.Sprintf("name: shop\ndatabase: {driver: mysql, dsn: %q}\nqueues: [{name: emails, job_types: [{name: send, handler: {exec: [cat]}}]}]\n", source)
	dbtest.OK(t, os.WriteFile(filepath.Join(dir, "hipq.yaml"), []byte(text), 0o600))
	init := func(options ...string) string {
		out, err := exec.Command(hipq, append([]string{"init", "--config", filepath.Join(dir, "hipq.yaml")}, options...)...).CombinedOutput()
		dbtest.Require(t, err == nil, "init %v: %v\n%s", options, err, out)
		return string(out)
	}
	init()
	s.grants = strings.Split(init("--print-grants"), "\n")
	s.db, err = sql.Open("mysql", source)
	if err == nil {
		_, err = s.db.Exec("CREATE TABLE orders (number INT NOT NULL PRIMARY KEY, customer VARCHAR(100) NOT NULL)")
	}
	dbtest.OK(t, err)
	t.Cleanup(func() { _ = s.db.Close() })
	return s
}

// user makes a user with the rights that hipq prints for a role, and others.
func (s *shop) user(like, others string) (name string) {
	s.t.Helper()
	name = fmt.Sprintf("%s_%x", like, rand.Uint32())
	statements := []string{"CREATE USER '" + name + "'@'%'"}
	for _, grant := range s.grants {
		if to := "TO '" + like + "'@"; strings.Contains(grant, to) {
			statements = append(statements, strings.Replace(grant, to, "TO '"+name+"'@", 1))
		}
	}
	if others != "" {
		statements = append(statements, "GRANT "+others+" TO '"+name+"'@'%'")
	}
	s.t.Cleanup(func() {
		_, err := s.db.Exec("DROP USER '" + name + "'@'%'")
		dbtest.Ensure(s.t, err == nil, "%v", err)
	})
	for _, statement := range statements {
		_, err := s.db.Exec(strings.TrimSuffix(statement, ";"))
		dbtest.Require(s.t, err == nil, "%s: %v", statement, err)
	}
	return name
}

func (s *shop) command(user, script string, args ...string) *exec.Cmd {
	c := exec.Command(s.client, append([]string{script + s.extension}, args...)...)
	c.Env = append(s.env[:len(s.env):len(s.env)], "DB_USER="+user)
	return c
}

// want compares a query's answer, all columns in one.
func (s *shop) want(want, query string) {
	s.t.Helper()
	got, err := s.answer(query)
	dbtest.Ensure(s.t, err == nil && got == want, "%s: %q (%v), want %q", query, got, err, want)
}

func (s *shop) answer(query string) (got string, err error) {
	return got, s.db.QueryRow(query).Scan(&got)
}

// await waits for a query's answer.
func (s *shop) await(want, query string) {
	s.t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		if got, err := s.answer(query); err == nil && got == want {
			return
		}
	}
	s.want(want, query)
}

const orders = "SELECT CONCAT((SELECT COUNT(*) FROM orders), ' ', (SELECT COUNT(*) FROM shop_emails))"

func (s *shop) enqueues() {
	user := s.user("submitter", "INSERT ON orders")
	enqueue := func(args ...string) string {
		out, _ := s.command(user, "enqueue", args...).CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	dbtest.Same(s.t, enqueue("4711", "ann@example.org"), "job 1", "it said")
	s.want("1 1", orders)
	s.want("30", "SELECT timeout FROM shop_emails WHERE job_key = 'order-4711'")
	enqueue("4711", "bob@example.org") // the order exists, so there must be no job
	s.want("1 1", orders)
	dbtest.Must(s.db.Exec("DELETE FROM orders"))(s.t)
	dbtest.Same(s.t, enqueue("4711", "ann@example.org"), "job 1, which was there already", "it said")
	s.want("1 1", orders)
	enqueue("4712", strings.Repeat("x", 101)) // the order is refused
	s.want("1 1", orders)
}

const state = "SELECT CONCAT(status, ' ', attempt, ' ', error, ' ', result) FROM shop_emails WHERE job_key = "

func (s *shop) works() {
	ctx := dbtest.Within(s.t, 2*time.Minute)
	said := &strings.Builder{}
	c := s.command(s.user("emails_worker", ""), "worker", "emails")
	c.Stdout, c.Stderr = said, said
	dbtest.OK(s.t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	defer func() { _ = c.Process.Kill() }()

	s.await(`finished 1 NONE {"sent_to": "ann@example.org"}`, strings.Replace(state, "result", "REPLACE(result, ':\"', ': \"')", 1)+"'order-4711'")
	add := func(key, data string) {
		_, err := s.db.ExecContext(ctx, "CALL shop_job_submit('emails', 'send', ?, ?, NULL)", key, data)
		dbtest.Ensure(s.t, err == nil, "%v", err)
	}
	add("nobody", "{}")
	s.await("failed 1 no address:  NONE", strings.Replace(state, "error", "LEFT(error, 12)", 1)+"'nobody'")
	add("broken", "{")
	s.await("scheduled 1", "SELECT CONCAT(status, ' ', attempt) FROM shop_emails WHERE job_key = 'broken'")

	// all connections but the test's end: the worker returns under another id
	before := dbtest.Must(s.answer("SELECT id FROM shop_workers WHERE state = 'working'"))(s.t)
	s.disconnect(ctx)
	s.await("1", "SELECT COUNT(*) FROM shop_workers WHERE state = 'working' AND id <> '"+before+"'")
	s.want("finished", "SELECT state FROM shop_workers WHERE id = '"+before+"'")
	add("again", `{"to":"ann@example.org"}`)
	s.await("finished 1", "SELECT CONCAT(status, ' ', attempt) FROM shop_emails WHERE job_key = 'again'")

	dbtest.OK(s.t, c.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-ended:
		dbtest.Ensure(s.t, err == nil, "%v: %s", err, said)
	case <-ctx.Done():
		s.t.Fatal("it does not end on SIGTERM")
	}
	s.want("0", "SELECT COUNT(*) FROM shop_workers WHERE state <> 'finished'")
}

// disconnect makes the server end all other connections to the test's database.
func (s *shop) disconnect(ctx context.Context) {
	rows, err := s.db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
	dbtest.OK(s.t, err)
	defer rows.Close()
	for rows.Next() {
		id := 0
		dbtest.OK(s.t, rows.Scan(&id))
		_, _ = s.db.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id)) // a connection may have ended by itself
	}
	dbtest.OK(s.t, rows.Err())
}
