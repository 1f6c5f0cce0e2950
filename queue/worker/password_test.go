package worker_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// TestRotatedPassword: a password that changes while jobs run, and all connections with it, stops no job. The worker goes on
// once the file of the DSN has the new one, or the server takes the old one again.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"file", "server"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			source := dbtest.MySQL(t)
			s := openShop(t, "mysql", source)
			cfg := dbtest.Must(mysql.ParseDSN(source))(t)
			user := strings.TrimPrefix(cfg.DBName, "hipq_") + "_rotates"
			s.exec("CREATE USER '" + user + "'@'%' IDENTIFIED BY 'old'")
			t.Cleanup(func() {
				dbtest.Must(s.db.SQL.ExecContext(context.Background(), "DROP USER '"+user+"'@'%'"))(t)
			})
			s.exec("GRANT ALL ON `" + cfg.DBName + "`.* TO '" + user + "'@'%'")
			file := t.TempDir() + "/dsn"
			dsn := func(password string) string {
				cfg.User, cfg.Passwd = user, password
				dbtest.OK(t, os.WriteFile(file, []byte(cfg.FormatDSN()+"\n"), 0o600))
				return cfg.FormatDSN()
			}
			db := dbtest.Must(schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: dsn("old"), DSNFile: file}, s.db.Names))(t)
			defer db.Close()
			q := dbtest.Must(queue.Open(t.Context(), db, queue.Options{Name: "emails"}))(t)
			s.add(s.emails, "send", 6)

			began := make(chan struct{}, 6)
			p := only(q, s.worker(map[string]handler.Handler{"send": handler.Func(func(ctx context.Context, _ *job.Job) error {
				began <- struct{}{}
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(4 * time.Second):
					return nil
				}
			})}))
			p.Concurrency, p.Grace = 4, time.Second
			r := s.start(p)
			receive(t, "a start", began)
			s.exec("ALTER USER '" + user + "'@'%' IDENTIFIED BY 'new'")
			var ids []int64
			dbtest.OK(t, s.db.SQL.SelectContext(t.Context(), &ids, "SELECT id FROM information_schema.processlist WHERE user = ?", user))
			for _, id := range ids {
				_, _ = s.db.SQL.ExecContext(t.Context(), "KILL ?", id)
			}
			time.Sleep(5 * time.Second) // all handlers have ended since
			if by == "file" {
				dsn("new")
			} else {
				s.exec("ALTER USER '" + user + "'@'%' IDENTIFIED BY 'old'")
			}
			sum, err := r.end()
			dbtest.Ensure(t, err == nil && sum.Finished == 6 && sum.Errors == 0, "%+v: %v", sum, err)
			var most int
			dbtest.OK(t, s.db.SQL.GetContext(t.Context(), &most, "SELECT MAX(attempt) FROM shop_emails"))
			dbtest.Same(t, most, 1)
		})
	}
}
