package cmd_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestUIActsLikeTheCommands: what a person does in the browser leaves the rows and the activity that the command leaves, besides
// who did it. It asks through a socket, as a proxy.
func TestUIActsLikeTheCommands(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		other := dbtest.SQLite(t)
		if driver == "mysql" {
			other = dbtest.MySQL(t)
		}
		var left []string
		for n, source := range []string{source, other} {
			dir := t.TempDir()
			file := filepath.Join(dir, "hipq.yaml")
			config := "name: shop\ndatabase: " + dbtest.Section(driver, source) + "\nqueues: [{name: emails}]\n"
			dbtest.OK(t, os.WriteFile(file, []byte(config), 0o600))
			hipq := func(args ...string) {
				t.Helper()
				c := exec.Command("hipq", args...)
				c.Dir = dir
				succeeds(t, c)
			}
			hipq("init")
			for k := range 6 {
				hipq("enqueue", "emails", "send", "--key", fmt.Sprint("k", k))
			}
			db := dbtest.Open(t, driver, source)
			dbtest.Must(db.SQL.ExecContext(t.Context(), "UPDATE shop_emails SET status = 'failed', attempt = 1, error = 'broken' WHERE id IN (4, 5)"))(t)
			if n == 0 {
				hipq("cancel", "emails", "1", "2")
				hipq("retry", "emails", "4")
				hipq("dismiss", "emails", "5")
				hipq("reschedule", "emails", "6", "--at", "2100-01-01 10:00")
				hipq("queue", "pause", "emails")
				hipq("enqueue", "emails", "digest", "--key", "new", "--data", "x", "--priority", "7")
			} else {
				post := uiOn(t, dir).post
				jobs := "/queues/emails/jobs"
				post(post(jobs, url.Values{"do": {"cancel"}, "id": {"1", "2"}}), nil)
				post(post(jobs, url.Values{"do": {"retry"}, "id": {"4"}}), nil)
				post(post(jobs, url.Values{"do": {"dismiss"}, "id": {"5"}}), nil)
				post(jobs, url.Values{"do": {"reschedule"}, "id": {"6"}, "at": {"2100-01-01 10:00"}})
				post("/queues/emails/pause", url.Values{"pause": {"yes"}})
				post("/enqueue", url.Values{"queue": {"emails"}, "type": {"digest"}, "key": {"new"}, "data": {"x"}, "priority": {"7"}, "anyway": {"1"}})
			}
			rows := rowsOf(t, db.SQL.DB.DB, "SELECT id, job_type, job_key, job_data, status, attempt, priority, error, retry_of, retried_as, wake_time IS NULL FROM shop_emails ORDER BY id") +
				rowsOf(t, db.SQL.DB.DB, "SELECT kind, state, job_id, job_type, job_key, attempt, error, output FROM shop_activity ORDER BY id") +
				rowsOf(t, db.SQL.DB.DB, "SELECT queue, paused FROM shop_queues")
			if n == 1 {
				dbtest.Same(t, strings.Count(rows, "by ada"), 8, rows)
			}
			left = append(left, regexp.MustCompile(`by [^,|]+`).ReplaceAllString(rows, "NONE"))
		}
		dbtest.Same(t, left[1], left[0])
	})
}

// TestUITellsNoSecret: pages show no setting and no environment of the config, and no password.
func TestUITellsNoSecret(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		dir := t.TempDir()
		if driver == "mysql" {
			cfg := dbtest.Must(mysql.ParseDSN(source))(t)
			db := dbtest.Must(sql.Open(driver, source))(t)
			for _, statement := range []string{"CREATE USER IF NOT EXISTS hipq_ui IDENTIFIED BY 'hush'", "GRANT ALL ON `" + cfg.DBName + "`.* TO hipq_ui"} {
				dbtest.Must(db.Exec(statement))(t)
			}
			dbtest.OK(t, db.Close())
			cfg.User, cfg.Passwd = "hipq_ui", "hush"
			source = cfg.FormatDSN()
		}
		config := "name: shop\ndatabase: " + dbtest.Section(driver, source) + "\nmonitor: {ping_url: http://127.0.0.1:1/hush}\nqueues:\n" +
			"  - name: emails\n    job_types: [{name: send, handler: {exec: [sh, -c, 'exit 65', hush], env: [TOKEN=hush]}}]\n"
		dbtest.OK(t, os.WriteFile(filepath.Join(dir, "hipq.yaml"), []byte(config), 0o600))
		for _, args := range []string{"init", "enqueue emails send", "work", "enqueue emails send"} {
			c := exec.Command("hipq", strings.Fields(args)...)
			c.Dir = dir
			succeeds(t, c)
		}
		get := uiOn(t, dir).get
		for _, path := range []string{
			"/", "/queues/emails", "/queues/emails/jobs/1", "/queues/emails/jobs/2", "/failures", "/schedules", "/workers", "/activity", "/metrics", "/enqueue",
		} {
			page := get(path)
			dbtest.Ensure(t, strings.Contains(page, "</html>") && !strings.Contains(page, "hush"), "%s: %s", path, page)
		}
		dbtest.Ensure(t, strings.Contains(get("/failures"), "exit status 65"), "the job has not failed")
	})
}

// TestUIKeepsDescriptors: idle connections don't take all file descriptors, and the next request is answered when they end.
func TestUIKeepsDescriptors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dbtest.OK(t, os.WriteFile(filepath.Join(dir, "hipq.yaml"), []byte("name: shop\ndatabase: "+dbtest.Section("sqlite", "shop.db")+"\nqueues: [{name: emails}]\n"), 0o600))
	c := exec.Command("hipq", "init")
	c.Dir = dir
	succeeds(t, c)
	ui := uiOn(t, dir)
	var idle []net.Conn
	for range 600 {
		idle = append(idle, dbtest.Must(net.Dial("unix", filepath.Join(dir, "ui.sock")))(t))
	}
	taken := func() int { return len(dbtest.Must(os.ReadDir(fmt.Sprintf("/proc/%d/fd", ui.pid)))(t)) }
	for last := 0; taken() > last; time.Sleep(300 * time.Millisecond) {
		last = taken()
	}
	dbtest.Ensure(t, taken() >= 400 && taken() < 450, "%d file descriptors", taken())
	for _, conn := range idle {
		dbtest.OK(t, conn.Close())
	}
	ui.get("/")
}

// proxied asks hipq ui as a proxy that knows Ada.
type proxied struct {
	pid  int
	get  func(path string) string
	post func(path string, form url.Values) (to string)
}

// uiOn starts hipq ui on a socket, behind a proxy.
func uiOn(t *testing.T, dir string) proxied {
	t.Helper()
	c := exec.Command("hipq", "ui", "--listen", "unix:ui.sock", "--behind-proxy", "X-User")
	c.Dir = dir
	out := dbtest.Must(c.StdoutPipe())(t)
	dbtest.OK(t, c.Start())
	t.Cleanup(func() {
		dbtest.OK(t, c.Process.Signal(syscall.SIGTERM))
		dbtest.OK(t, c.Wait())
	})
	dbtest.Same(t, dbtest.Must(bufio.NewReader(out).ReadString('\n'))(t), "hipq ui listens on ui.sock\n")
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "ui.sock"))
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ask := func(user, method, path string, form url.Values, status int) (text, to string) {
		t.Helper()
		r := dbtest.Must(http.NewRequestWithContext(t.Context(), method, "http://hipq"+path, strings.NewReader(form.Encode())))(t)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-User", user)
		a := dbtest.Must(client.Do(r))(t)
		defer a.Body.Close()
		text = string(dbtest.Must(io.ReadAll(a.Body))(t))
		dbtest.Require(t, a.StatusCode == status, "%s: %d %s", path, a.StatusCode, text)
		return text, a.Header.Get("Location")
	}
	ask("", http.MethodPost, "/queues/emails/pause", url.Values{"pause": {"yes"}}, http.StatusForbidden)
	return proxied{
		c.Process.Pid,
		func(path string) (text string) {
			t.Helper()
			text, _ = ask("ada", http.MethodGet, path, nil, http.StatusOK)
			return text
		},
		func(path string, form url.Values) (to string) {
			t.Helper()
			_, to = ask("ada", http.MethodPost, path, form, http.StatusSeeOther)
			return to
		},
	}
}

// rowsOf prints a query's rows.
func rowsOf(t *testing.T, db *sql.DB, query string) (text string) {
	t.Helper()
	for _, row := range dbtest.Must(dbtest.Rows(t.Context(), db, query))(t) {
		for _, cell := range row {
			text += cell.String + "|"
		}
		text += "\n"
	}
	return text
}
