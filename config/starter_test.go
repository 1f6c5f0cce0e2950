package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
)

func TestStarterLoads(t *testing.T) {
	c := mustLoad(t, string(NewStarter().Config))
	dbtest.Ensure(t, len(c.Queues) == 1 && len(c.Queues[0].Types) == 1 && len(c.Queues[0].Handlers) == 1 && c.Database.Driver == "sqlite",
		"got %+v", c)
}

// fakeManage stands for a Django project: it runs what manage.py shell -c gets, with settings.
const fakeManage = `import sys, types
conf = types.ModuleType("django.conf")
conf.settings = types.SimpleNamespace(DATABASES={"default": {"ENGINE": "django.db.backends.mysql", "NAME": "shop", "USER": "dj", "PASSWORD": "p@ss", "HOST": "/run/mysqld/mysqld.sock"}})
sys.modules["django"], sys.modules["django.conf"] = types.ModuleType("django"), conf
print("7 objects imported automatically.")
exec(sys.argv[3])
`

// Each framework's application gets a config that loads, with its own database and the queues that its sources name.
func TestStarterFor(t *testing.T) {
	for name, app := range map[string]struct {
		framework string
		files     map[string]string
		database  string // in the config
		dsn       string
		queues    string
	}{
		"Laravel on MariaDB": {"laravel", map[string]string{
			"artisan": "", ".env": "DB_CONNECTION=mariadb\nDB_HOST=db\nDB_PORT=3307\nDB_DATABASE=shop\nDB_USERNAME=web\nDB_PASSWORD=\"p#a s:s@/\"\n",
			"app/Jobs/Send.php": "<?php $this->onQueue('mail-out'); class A { public $queue = 'reports'; }", "vendor/x.php": "onQueue('no')",
		}, "dsn_file: hipq.dsn", "web:p#a s:s@/@tcp(db:3307)/shop", "default mail_out reports"},
		"Laravel by a URL":  {"laravel", map[string]string{"artisan": "", ".env": "DB_URL=mysql://web:p%40ss@127.0.0.1/shop\n"}, "dsn_file: hipq.dsn", "web:p@ss@tcp(127.0.0.1:3306)/shop", "default"},
		"Laravel on SQLite": {"laravel", map[string]string{"artisan": "", ".env": "DB_CONNECTION=sqlite\n"}, `path: "database/database.sqlite"`, "", "default"},
		"Symfony": {"symfony", map[string]string{
			"bin/console": "", ".env": "DATABASE_URL=\"postgresql://x\"\n", ".env.local": "DATABASE_URL=\"mysql://app:!Change!@127.0.0.1:3306/app?serverVersion=10.11.2-MariaDB&charset=utf8mb4\"\n",
			"config/packages/messenger.yaml": "transports:\n  async: '%env(MESSENGER_TRANSPORT_DSN)%'\n  slow: '%env(MESSENGER_TRANSPORT_DSN)%'\n  b: 'hipq://mail'",
		}, "dsn_file: hipq.dsn", "app:!Change!@tcp(127.0.0.1:3306)/app", "async mail slow"},
		"Symfony on SQLite": {"symfony", map[string]string{"bin/console": "", ".env": "DATABASE_URL=\"sqlite:///%kernel.project_dir%/var/data.db\"\n"}, `path: "var/data.db"`, "", "async"},
		"Rails": {"rails", map[string]string{
			"bin/rails": "", "app/jobs/a.rb": "queue_as :low\nqueue_as(\"mailers\")",
			"config/database.yml": "default: &default\n  adapter: mysql2\n  username: <%= 'ra' + 'ils' %>\ndevelopment:\n  <<: *default\n  database: shop_development\n  socket: /run/mysqld/mysqld.sock\n",
		}, "dsn_file: hipq.dsn", "rails@unix(/run/mysqld/mysqld.sock)/shop_development", "default low mailers"},
		"Rails on several": {"rails", map[string]string{
			"bin/rails": "", "config/database.yml": "development:\n  primary: {adapter: sqlite3, database: storage/development.sqlite3}\n  cache: {adapter: sqlite3, database: storage/cache.sqlite3}\n",
		}, `path: "storage/development.sqlite3"`, "", "default"},
		"Django": {"django", map[string]string{
			"manage.py": fakeManage, "shop/tasks.py": "@task(queue='reports')\n@shared_task(attempts=3, queue=\"mail\")", ".venv/x.py": "@task(queue='no')",
		}, "dsn_file: hipq.dsn", "dj:p@ss@unix(/run/mysqld/mysqld.sock)/shop", "default mail reports"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range app.files {
				write(t, filepath.Join(dir, file), text)
			}
			for _, variable := range []string{"DB_URL", "DATABASE_URL", "DB_CONNECTION", "RAILS_ENV"} {
				t.Setenv(variable, "")
			}
			s := dbtest.Must(StarterFor(app.framework, dir))(t)
			dbtest.Ensure(t, s.DSN == app.dsn, "dsn %s, want %s", s.DSN, app.dsn)
			dbtest.Ensure(t, strings.Contains(string(s.Config), app.database), "no %s in\n%s", app.database, s.Config)
			write(t, filepath.Join(dir, "hipq.yaml"), string(s.Config))
			if s.DSN != "" {
				write(t, filepath.Join(dir, DSNFile), s.DSN+"\n")
			}
			c := dbtest.Must(Load(LoadOptions{File: filepath.Join(dir, "hipq.yaml")}))(t)
			dbtest.Ensure(t, strings.Join(c.QueueNames(), " ") == app.queues, "queues %s, want %s", c.QueueNames(), app.queues)
			dbtest.Ensure(t, len(s.Steps) > 1 && strings.Contains(s.Steps[0], DSNFile) == (s.DSN != "") && len(c.Queues[0].Handlers) == 1, "steps %q, handlers %v", s.Steps, c.Queues[0].Handlers)
		})
	}
}

// What isn't there, or what hipq has no driver for, is said, without passwords.
func TestStarterForNone(t *testing.T) {
	for name, app := range map[string]struct {
		framework string
		files     map[string]string
		want      string
	}{
		"another folder":   {"laravel", nil, "this folder has no Laravel application: there is no artisan"},
		"no database":      {"laravel", map[string]string{"artisan": "", ".env": "APP_ENV=local\n"}, "neither the environment nor .env has DB_URL or DB_CONNECTION"},
		"another database": {"symfony", map[string]string{"bin/console": "", ".env": "DATABASE_URL=postgresql://app:secret@127.0.0.1/app\n"}, `this application's database is "postgresql"`},
		"a broken URL":     {"symfony", map[string]string{"bin/console": "", ".env": "DATABASE_URL='mysql://app:secret@127.0.0.1:x/app'\n"}, "its URL can't be read"},
		"broken settings":  {"django", map[string]string{"manage.py": "raise ValueError('no settings')"}, "python3: exit status 1: ValueError: no settings"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DATABASE_URL", "")
			dir := t.TempDir()
			for file, text := range app.files {
				write(t, filepath.Join(dir, file), text)
			}
			_, err := StarterFor(app.framework, dir)
			dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), app.want) && !strings.Contains(err.Error(), "secret"), "got %v, want %s", err, app.want)
		})
	}
}

const examplePath = "../hipq.example.yaml"

func TestExampleLoads(t *testing.T) {
	got := dbtest.Must(Load(LoadOptions{File: examplePath, Env: noEnv}))(t)
	// outside the queues, the example shows the defaults
	want := mustLoad(t, minimal)
	want.File, want.Database.Path, want.Queues = got.File, filepath.Join(filepath.Dir(got.File), "hipq.db"), got.Queues
	want.Schedules = got.Schedules
	want.Alert.Queues = got.Alert.Queues
	dbtest.Same(t, diff(want, got), "", "(-default +example)")
	files := got.Queues[0]
	dbtest.Ensure(t, files.KeepFinished == queue.DefaultKeepFinished && files.KeepFailed == queue.DefaultKeepFailed && files.ThrottleLimit == 0,
		"the first queue does not show the defaults: %+v", files.Options)
}
