package cmd_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
)

var (
	sqlComment = texts.Pattern(`(?m) *-- .*$`)
	onConflict = texts.Pattern("`(ON CONFLICT [^`]+)`")
)

// statements returns the statements of a block without its comments.
func (b codeBlock) statements() []string {
	return regexp.MustCompile(`;\s*`).Split(strings.TrimRight(sqlComment().ReplaceAllString(b.text, ""), "; \n"), -1)
}

// twice runs statements that add a job only once. For SQLite it puts in the clause from the page's text.
func (d docs) twice(t *testing.T, p page) {
	blocks := p.with("sql", "twice")
	if len(blocks) == 0 {
		return
	}
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		s := d.shop(t, driver, source)
		for _, b := range blocks {
			text := b.text
			if driver == "sqlite" {
				text = regexp.MustCompile(`ON DUPLICATE KEY .*;`).ReplaceAllString(text, onConflict().FindStringSubmatch(p.text)[1])
			}
			for range 2 {
				_, err := s.db.Exec(text)
				dbtest.Ensure(t, err == nil, "%s:%d: %v", p.name, b.line, err)
			}
		}
		dbtest.Same(t, s.count("shop_emails"), len(blocks), "jobs")
	})
}

// calls runs statements about the jobs that a page's commands are about.
func (d docs) calls(t *testing.T, p page) {
	for _, b := range p.with("sql", "calls") {
		source, dir := dbtest.MySQL(t), t.TempDir()
		dbtest.OK(t, os.WriteFile(filepath.Join(dir, "hipq.yaml"), []byte(shopConfig+"database: {driver: mysql, dsn: '"+source+"'}\n"), 0o600))
		dbtest.OK(t, os.WriteFile(filepath.Join(dir, "send.sh"), []byte("cat\n"), 0o600))
		d.shell(t, p, dir, "hipq init\n"+before[p.name].script)
		db := dbtest.Must(sql.Open("mysql", source))(t)
		defer func() { _ = db.Close() }()
		for _, statement := range b.statements() {
			_, err := db.ExecContext(t.Context(), statement)
			dbtest.Ensure(t, err == nil, "%s:%d: %s: %v", p.name, b.line, statement, err)
		}
	}
}

// sqlWorker runs the loop of a worker in SQL: a job for each call that ends one.
func (d docs) sqlWorker(t *testing.T, p page) {
	for _, b := range p.with("sql", "worker") {
		db := dbtest.Must(d.shop(t, "mysql", dbtest.MySQL(t)).db.Conn(t.Context()))(t) // variables are those of a session
		run := func(statement string) {
			t.Helper()
			_, err := db.ExecContext(t.Context(), statement)
			dbtest.Require(t, err == nil, "%s:%d: %s: %v", p.name, b.line, statement, err)
		}
		calls := b.statements()
		isEnd := func(call string) bool {
			return strings.Contains(call, "_job_complete(") || strings.Contains(call, "_job_fail(")
		}
		first, last := slices.IndexFunc(calls, isEnd), len(calls)-1
		run("SET @worker = REPEAT('a1b2c3d4', 4)")
		run(calls[0])
		for _, end := range calls[first:last] {
			run("CALL shop_job_submit('emails', 'send', NULL, NULL, NULL)")
			for _, call := range calls[1:first] {
				if !strings.Contains(call, "_job_grab(") {
					run(call)
					continue
				}
				var id, token string
				var rest sql.NullString
				err := db.QueryRowContext(t.Context(), call).Scan(&id, &rest, &rest, &rest, &rest, &rest, &token)
				dbtest.Require(t, err == nil, "%s:%d: %s: %v", p.name, b.line, call, err)
				run("SET @id = " + id + ", @token = '" + token + "'")
			}
			run(end)
		}
		run(calls[last])
		var ended string
		dbtest.OK(t, db.QueryRowContext(t.Context(), "SELECT GROUP_CONCAT(status ORDER BY id) FROM shop_emails").Scan(&ended))
		dbtest.Same(t, ended, "finished,failed,scheduled,scheduled", "%s:%d: how the jobs end", p.name, b.line)
	}
}

// admin runs what an administrator runs on a new server. hipq init must then work for the page's user.
func (d docs) admin(t *testing.T, p page) {
	for _, b := range p.with("sql", "admin") {
		server := dbtest.Must(mysql.ParseDSN(dbtest.OwnMySQL(t)))(t)
		db := dbtest.Must(sql.Open("mysql", server.FormatDSN()))(t)
		t.Cleanup(func() { _ = db.Close() })
		for _, statement := range b.statements() {
			_, err := db.ExecContext(t.Context(), statement)
			dbtest.Require(t, err == nil, "%s:%d: %s: %v", p.name, b.line, statement, err)
		}
		c := d.command(t.TempDir(), "sh", "-ec", "echo '{name: shop, database: {driver: mysql}, queues: [{name: emails}]}' > hipq.yaml; hipq init")
		c.Env = append(c.Env, "HIPQ_DATABASE_DSN=hipq:secret@tcp("+server.Addr+")/shop")
		succeeds(t, c, p.name, b.line)
	}
}

// TestPHPThrows: PHP in docs and examples never mistakes false for JSON, which is what broken UTF-8 becomes.
func TestPHPThrows(t *testing.T) {
	calls := 0
	for _, names := range []string{"../*.md", "../docs/*/*.md", "../examples/*/*.php"} {
		for _, file := range dbtest.Must(filepath.Glob(names))(t) {
			for n, line := range strings.Split(string(dbtest.Must(os.ReadFile(file))(t)), "\n") {
				for _, call := range regexp.MustCompile(`json_(en|de)code\(.*`).FindAllString(line, -1) {
					calls++
					dbtest.Ensure(t, strings.Contains(call, "JSON_THROW_ON_ERROR"), "%s:%d: %s", file, n+1, call)
				}
			}
		}
	}
	dbtest.Ensure(t, calls > 15, "only %d calls were found", calls)
}
