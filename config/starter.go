package config

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/go-sql-driver/mysql"
	"github.com/subosito/gotenv"

	"github.com/hipq/hipq/internal/texts"
)

//go:embed starter
var starters embed.FS

// DSNFile is the file beside a first config that has the address and login of the application's database.
const DSNFile = "hipq.dsn"

// Starter is a first config.
type Starter struct {
	Config []byte
	// DSN is what DSNFile must have; empty for none.
	DSN string
	// Steps are what is left to do in the application.
	Steps []string
}

// NewStarter returns a minimal config with comments, for beginners.
func NewStarter() Starter {
	text, _ := starters.ReadFile("starter/none.yaml") // it is embedded
	return Starter{Config: text}
}

// Frameworks are those for whose applications StarterFor makes a config.
func Frameworks() []string { return []string{"laravel", "rails", "symfony", "django"} }

// StarterFor returns a config for the application of a framework in a folder: its database, and the queues that its sources
// name. It runs the application's own language to read the settings of Rails and Django.
func StarterFor(name, dir string) (Starter, error) {
	f := frameworks[name]
	if _, err := os.Stat(filepath.Join(dir, f.program)); err != nil {
		return Starter{}, fmt.Errorf("%w: this folder has no %s application: there is no %s", ErrInvalid, f.title, f.program)
	}
	db, err := f.database(dir)
	if err != nil {
		return Starter{}, fmt.Errorf("%w: find the database of this %s application: %w", ErrInvalid, f.title, err)
	}
	s := Starter{Steps: f.steps}
	section := ""
	switch driver := strings.ToLower(db.Driver); {
	case strings.Contains(driver, "sqlite"):
		section = fmt.Sprintf("\n# The application's own file, so that a job is in the same transaction as what it is about.\ndatabase: {driver: sqlite, path: %q}\n", db.Name)
	case strings.Contains(driver, "mysql"), strings.Contains(driver, "mariadb"), strings.Contains(driver, "trilogy"):
		section = "\n# The application's own database, so that a job is in the same transaction as what it is about. Keep " + DSNFile + " out of git.\n" +
			"database: {driver: mysql, dsn_file: " + DSNFile + "}\n"
		s.DSN, s.Steps = db.dsn(), append([]string{"keep " + DSNFile + ", which has the database's password, out of git"}, s.Steps...)
	default:
		return Starter{}, fmt.Errorf("%w: hipq works on MySQL, MariaDB and SQLite, and this application's database is %q", ErrInvalid, db.Driver)
	}
	var text bytes.Buffer
	err = template.Must(template.ParseFS(starters, "starter/"+name+".yaml")).Execute(&text, map[string]any{
		"Database": section, "Queues": f.queuesIn(dir), "Python": python(dir), "Env": f.env(),
	})
	s.Config = text.Bytes()
	return s, err
}

type framework struct {
	title string
	// program is a file that each of its applications has.
	program  string
	database func(dir string) (appDatabase, error)
	// queue is the first queue. sources are where to look for others, and named finds their names there.
	queue, sources string
	named          func() *regexp.Regexp
	// variable has the name of the environment, which otherwise is usual.
	variable, usual string
	steps           []string
}

func (f framework) env() string { return cmp.Or(os.Getenv(f.variable), f.usual) }

var frameworks = map[string]framework{
	"laravel": {
		"Laravel", "artisan", func(dir string) (appDatabase, error) { return dotenv(dir, "DB_URL", ".env") },
		"default", "app", texts.Pattern(`(?:onQueue\(|\$queue *= *)['"]([\w.:-]+)['"]`), "", "",
		[]string{"composer require hipq/laravel", "in .env: QUEUE_CONNECTION=hipq"},
	},
	"symfony": {
		"Symfony", "bin/console", func(dir string) (appDatabase, error) { return dotenv(dir, "DATABASE_URL", ".env.local", ".env") },
		"async", "config/packages", texts.Pattern(`hipq://([\w.:-]+)|([\w.-]+): *['"]?%env\(MESSENGER_TRANSPORT_DSN\)`), "APP_ENV", "prod",
		[]string{
			"composer require hipq/messenger", `in config/bundles.php: Hipq\Messenger\HipqMessengerBundle::class => ['all' => true]`,
			"in .env: MESSENGER_TRANSPORT_DSN=hipq://async",
		},
	},
	"rails": {
		"Rails", "bin/rails", railsDatabase,
		"default", "app", texts.Pattern(`queue_as[ (]+[:'"]+([\w.-]+)`), "RAILS_ENV", "development",
		[]string{`in Gemfile: gem "hipq-rails"`, "in config/application.rb: config.active_job.queue_adapter = :hipq"},
	},
	"django": {
		"Django", "manage.py", djangoDatabase,
		"default", ".", texts.Pattern(`@(?:shared_)?task\(.*queue *= *['"]([\w.:-]+)['"]`), "", "",
		[]string{
			"pip install django-hipq", `in settings.py: INSTALLED_APPS += ["django_hipq"], and HIPQ = {"INSTANCE": "app"}`,
			"in tasks.py: from django_hipq import shared_task",
		},
	},
}

// queuesIn returns the names of queues in the application's sources, as hipq writes them, beginning with the first.
func (f framework) queuesIn(dir string) []string {
	found := map[string]bool{}
	_ = filepath.WalkDir(filepath.Join(dir, f.sources), func(file string, entry fs.DirEntry, err error) error { // what can't be read names none
		switch name := ""; {
		case err != nil:
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && entry.Name() != "." || slices.Contains([]string{"node_modules", "vendor", "venv", "site-packages"}, entry.Name())):
			return fs.SkipDir
		case slices.Contains([]string{".php", ".rb", ".py", ".yaml"}, filepath.Ext(file)):
			text, _ := os.ReadFile(file)
			for _, match := range f.named().FindAllSubmatch(text, -1) {
				name = strings.ToLower(strings.NewReplacer("-", "_", ".", "_", ":", "_").Replace(string(slices.Concat(match[1:]...))))
				found[name] = name != f.queue
			}
		}
		return nil
	})
	names := []string{}
	for name, other := range found {
		if other {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return append([]string{f.queue}, names...)
}

// appDatabase is an application's database, with the names that Rails has for its settings.
type appDatabase struct {
	Driver   string `json:"adapter"`
	Host     string `json:"host"`
	Port     any    `json:"port"`
	User     string `json:"username"`
	Password string `json:"password"`
	Name     string `json:"database"`
	Socket   string `json:"socket"`
	URL      string `json:"url"`
}

func (d appDatabase) dsn() string {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName = d.User, d.Password, d.Name
	port := "3306"
	if d.Port != nil && d.Port != "" {
		port = fmt.Sprint(d.Port)
	}
	c.Net, c.Addr = "tcp", net.JoinHostPort(cmp.Or(d.Host, "127.0.0.1"), port)
	if d.Socket != "" {
		c.Net, c.Addr = "unix", d.Socket
	}
	return c.FormatDSN()
}

// fromURL returns the database of a URL such as mysql://user:password@host:3306/name.
func fromURL(text string) (d appDatabase, err error) {
	u, err := url.Parse(strings.NewReplacer("%kernel.project_dir%/", "", "%kernel.environment%", "prod").Replace(text))
	if err != nil {
		return d, errors.New("its URL can't be read") // the error would have the password
	}
	d = appDatabase{Driver: u.Scheme, Host: u.Hostname(), Port: u.Port(), User: u.User.Username(), Name: strings.TrimPrefix(u.Path, "/")}
	d.Password, _ = u.User.Password()
	if strings.Contains(d.Driver, "sqlite") {
		d.Name = cmp.Or(u.Opaque, strings.TrimPrefix(u.Path, "/"))
	}
	return d, nil
}

// dotenv returns the database of the environment, or of the files that stand in for it, the first first: as a URL, or by
// Laravel's variables.
func dotenv(dir, urlName string, files ...string) (appDatabase, error) {
	values := map[string]string{}
	for _, file := range slices.Backward(files) {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return appDatabase{}, err
		}
		for name, value := range gotenv.Parse(bytes.NewReader(text)) {
			values[name] = value
		}
	}
	get := func(name string) string { return cmp.Or(os.Getenv(name), values[name]) }
	if at := cmp.Or(get(urlName), get("DATABASE_URL")); at != "" {
		return fromURL(at)
	}
	d := appDatabase{
		Driver: get("DB_CONNECTION"), Host: get("DB_HOST"), Port: get("DB_PORT"), User: get("DB_USERNAME"), Password: get("DB_PASSWORD"),
		Name: get("DB_DATABASE"), Socket: get("DB_SOCKET"),
	}
	if d.Driver == "" {
		return d, fmt.Errorf("neither the environment nor %s has %s or DB_CONNECTION", strings.Join(files, ", "), urlName)
	}
	if d.Driver == "sqlite" {
		d.Name = cmp.Or(d.Name, "database/database.sqlite")
	}
	return d, nil
}

// railsDatabase reads config/database.yml, which is a template of Ruby.
func railsDatabase(dir string) (d appDatabase, err error) {
	if at := os.Getenv("DATABASE_URL"); at != "" {
		return fromURL(at)
	}
	const read = `require "erb"; require "yaml"; require "json"
text = ERB.new(File.read("config/database.yml")).result
all = YAML.respond_to?(:unsafe_load) ? YAML.unsafe_load(text) : YAML.load(text)
one = all.fetch(ARGV[0])
puts JSON.generate(one.values.all?(Hash) ? one.fetch("primary", one.values.first) : one)`
	if err = said(dir, &d, "ruby", "-e", read, cmp.Or(os.Getenv("RAILS_ENV"), "development")); err == nil && d.URL != "" {
		return fromURL(d.URL)
	}
	return d, err
}

// djangoDatabase asks the project for its settings, which are a program.
func djangoDatabase(dir string) (d appDatabase, err error) {
	const read = `import json; from django.conf import settings; d = settings.DATABASES["default"]; print(); print(json.dumps({` +
		`"adapter": d["ENGINE"], "host": d.get("HOST", ""), "port": d.get("PORT", ""), "username": d.get("USER", ""),` +
		` "password": d.get("PASSWORD", ""), "database": str(d["NAME"]), "socket": d.get("OPTIONS", {}).get("unix_socket", "")}))`
	err = said(dir, &d, python(dir), "manage.py", "shell", "-c", read)
	if strings.HasPrefix(d.Host, "/") {
		d.Socket = d.Host
	}
	return d, err
}

// python is the project's own Python, if it has a virtual environment.
func python(dir string) string {
	for _, venv := range []string{".venv", "venv"} {
		file := filepath.Join(venv, "bin", "python")
		if info, err := os.Stat(filepath.Join(dir, file)); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return "python3"
}

// said runs a program in a folder, and decodes the last line that it prints.
func said(dir string, into any, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		lines := slices.DeleteFunc(strings.Split(string(exit.Stderr), "\n"), func(line string) bool { return strings.TrimLeft(line, " \t") != line || line == "" })
		return fmt.Errorf("%s: %w: %s", program, err, strings.Join(lines[max(0, len(lines)-1):], ""))
	}
	if err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return json.Unmarshal(lines[len(lines)-1], into)
}
