package cmd_test

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/hipq/hipq/internal/dbtest"
)

// language turns a page's lines that enqueue a job into a program and runs it.
type language struct {
	file string
	// around is the program with a placeholder for the lines.
	around string
	// run runs the program. check compiles it if the driver is missing. probe succeeds if the driver is installed.
	run, check, probe []string
}

const jdbc = "/usr/share/java/mariadb-java-client.jar" // Debian's libmariadb-java

var languages = map[string]language{
	"php": {
		"job.php", "<?php $db = new PDO('mysql:host={host};port={port};dbname={name};charset=utf8mb4', '{user}', '{password}');\n{lines}",
		[]string{"{client}", "job.php"},
		nil, nil,
	},
	// As WordPress: no strict mode, and errors are only noted. The page's lines run twice.
	"php wordpress": {
		"job.php", `<?php
class Wordpress
{
    public string $last_error = '';
    public function __construct(public PDO $db) { $db->exec("SET sql_mode = ''"); }
    public function prepare(string $query, ...$args): string
    {
        return vsprintf(str_replace('%s', "'%s'", $query), array_map(fn ($arg) => is_int($arg) ? $arg : addslashes($arg), $args));
    }
    public function query(string $query): int|false
    {
        try { return $this->db->exec($query); } catch (PDOException $e) { $this->last_error = $e->errorInfo[2]; }
        return false;
    }
}
$wpdb = new Wordpress(new PDO('mysql:host={host};port={port};dbname={name};charset=utf8mb4', '{user}', '{password}'));
$wpdb->query("INSERT INTO orders (number, customer) VALUES (4711, 'ann')");
foreach ([4711, 4711] as $order_id) {
{lines}
}`,
		[]string{"{client}", "job.php"},
		nil, nil,
	},
	"python": {
		"job.py", "import json, sys, pymysql\nsys.path.insert(0, '{root}/clients/python')\nimport hipq\ndb = pymysql.connect(host='{host}', port={port}, user='{user}', password='{password}', " +
			"database='{name}', charset='utf8mb4')\n{lines}",
		[]string{"{client}", "job.py"},
		nil, nil,
	},
	"js": {
		"job.cjs", "(async () => {\nconst { Client } = await import('{root}/clients/node/hipq.mjs')\nconst db = await require('mysql2/promise').createConnection({host: '{host}', port: {port}, user: '{user}', " +
			"password: '{password}', database: '{name}'})\n{lines}\nawait db.end()\n})()",
		[]string{"node", "job.cjs"},
		[]string{"node", "--check", "job.cjs"},
		[]string{"node", "-e", "require('mysql2/promise')"},
	},
	"ruby": {
		"job.rb", "require 'json'\nrequire 'mysql2'\ndb = Mysql2::Client.new(host: '{host}', port: {port}, username: '{user}', " +
			"password: '{password}', database: '{name}', encoding: 'utf8mb4')\n{lines}",
		[]string{"ruby", "job.rb"},
		[]string{"ruby", "-c", "job.rb"},
		[]string{"ruby", "-e", "require 'mysql2'"},
	},
	"java": {
		"Job.java", "import java.sql.*;\nclass Job {\npublic static void main(String[] args) throws Exception {\n" +
			"var db = DriverManager.getConnection(\"jdbc:mariadb://{host}:{port}/{name}?user={user}&password={password}\");\n{lines}}\n}",
		[]string{"java", "-cp", jdbc, "Job.java"},
		[]string{"javac", "-d", ".", "Job.java"},
		[]string{"test", "-e", jdbc},
	},
}

// others runs a page's examples that enqueue without hipq: with other languages, in a transaction that also takes an
// order, or with a time of their own, and with the databases' clients.
func (d docs) others(t *testing.T, p page) {
	of := map[string][]codeBlock{} // by driver
	for _, b := range p.fences {
		if strings.HasPrefix(p.name, "docs/") && strings.Contains(b.text, "beginTransaction()") {
			dbtest.Ensure(t, strings.Contains(p.text, "enqueue.md#times") || strings.Contains(p.text, "\n## Times\n"), "%s has no link to how a language writes a time", p.name)
		}
		if b.language+" "+b.mark == "php wordpress" {
			b.text = strings.NewReplacer("<?php", "", "shop_wordpress", "shop_emails", "send_invoice", "send", "invoice-", "order-").Replace(b.text)
			b.language, b.mark = "php wordpress", "enqueue"
		}
		if _, known := languages[b.language]; known && (b.mark == "enqueue" || b.mark == "time") {
			of["mysql"] = append(of["mysql"], b)
		} else if c, known := clients[b.language+" "+b.mark]; known {
			of[c.driver] = append(of[c.driver], b)
		}
	}
	if len(of) == 0 {
		return
	}
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		s := d.shop(t, driver, source)
		for _, b := range of[driver] {
			t.Run(b.language+" "+b.mark, func(t *testing.T) {
				s := *s
				s.T = t
				s.clear()
				if b.mark == "enqueue" || b.mark == "time" {
					s.enqueue(p, b)
				} else {
					s.client(p, b, clients[b.language+" "+b.mark].name)
				}
			})
		}
	})
}

// clients maps a fence to its database's driver and the name of its client in dbtest.
var clients = map[string]struct{ driver, name string }{
	"sh mariadb": {"mysql", "mariadb"}, "sh sqlite3": {"sqlite", "sqlite3"}, "python sqlite": {"sqlite", "python"},
}

// shop is an instance with a queue and a table of orders. dir holds its config.
type shop struct {
	*testing.T
	docs
	dir string
	db  *sql.DB
	// fill inserts the database's address and account.
	fill *strings.Replacer
}

func (d docs) shop(t *testing.T, driver, source string) *shop {
	t.Helper()
	s := &shop{T: t, docs: d, dir: t.TempDir()}
	where, values := "", []string{"{root}", d.root}
	if driver == "sqlite" {
		source = filepath.Join(s.dir, "hipq.db")
	} else {
		where = fmt.Sprintf("database: {driver: mysql, dsn: %q}\n", source)
		c := dbtest.Must(mysql.ParseDSN(source))(t)
		host, port, err := net.SplitHostPort(c.Addr)
		dbtest.OK(t, err)
		values = append(values, "{host}", host, "{port}", port, "{user}", c.User, "{password}", c.Passwd, "{name}", c.DBName)
	}
	s.fill = strings.NewReplacer(values...)
	text := "name: shop\n" + where + "queues: [{name: emails, job_types: [{name: send, handler: {exec: [cat]}}]}]\n"
	s.write("hipq.yaml", text)
	succeeds(t, s.command(s.dir, "hipq", "init"))
	db, err := sql.Open(driver, source)
	if err == nil {
		_, err = db.Exec("CREATE TABLE orders (number INT NOT NULL PRIMARY KEY, customer TEXT NOT NULL)")
	}
	dbtest.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s.db = db
	return s
}

func (s *shop) write(file, text string) {
	s.Helper()
	dbtest.OK(s, os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600))
}

func (s *shop) clear() {
	for _, table := range []string{"orders", "shop_emails"} {
		dbtest.Must(s.db.Exec("DELETE FROM " + table))(s)
	}
}

func (s *shop) count(table string) (n int) {
	dbtest.OK(s, s.db.QueryRow("SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

// enqueue runs lines that take an order and enqueue its job.
func (s *shop) enqueue(p page, b codeBlock) {
	l, program := languages[b.language], ""
	if l.probe == nil { // PHP and Python are required
		program = dbtest.Client(s, strings.Fields(b.language)[0])
	} else if _, err := exec.LookPath(l.run[0]); err != nil {
		s.Skip(err)
	}
	s.write(l.file, s.fill.Replace(strings.Replace(l.around, "{lines}", b.text, 1)))
	command := func(argv []string) *exec.Cmd {
		c := exec.Command(strings.Replace(argv[0], "{client}", program, 1), argv[1:]...)
		c.Dir, c.Env = s.dir, append(os.Environ(), "TZ=America/New_York") // local times are wrong
		return c
	}
	run, want := l.run, 1
	if l.probe != nil && command(l.probe).Run() != nil {
		s.Log("read and not run: its driver is not here")
		run, want = l.check, 0
	}
	succeeds(s.T, command(run), p.name, b.line)
	if b.mark == "time" {
		inTime := s.count("shop_emails WHERE scheduled_run_time BETWEEN UTC_TIMESTAMP() + INTERVAL 100 MINUTE AND UTC_TIMESTAMP() + INTERVAL 140 MINUTE")
		dbtest.Ensure(s, inTime == want, "%s:%d: %d jobs at the right time", p.name, b.line, inTime)
		return
	}
	orders, jobs := s.count("orders"), s.count("shop_emails WHERE job_type = 'send' AND job_key = 'order-4711'")
	if orders != want || jobs != want {
		s.Errorf("%s:%d: %d orders, %d jobs", p.name, b.line, orders, jobs)
	}
}

// client runs lines that enqueue a job with a database's client, then the job.
func (s *shop) client(p page, b codeBlock, client string) {
	program := dbtest.Client(s, client)
	argv := []string{"sh", "-euc", b.text}
	switch b.mark {
	case "mariadb":
		s.write(".my.cnf", s.fill.Replace("[client]\nhost={host}\nport={port}\nuser={user}\npassword={password}\n"))
		argv[2] = strings.Replace(b.text, "mariadb shop ", program+s.fill.Replace(" {name} "), 1)
	case "sqlite":
		argv = []string{program, "-c", s.fill.Replace("import sys; sys.path.insert(0, '{root}/clients/python')\n") + b.text}
	}
	for _, argv := range [][]string{argv, {"hipq", "work"}} {
		succeeds(s.T, s.command(s.dir, argv[0], argv[1:]...), p.name, b.line)
	}
	dbtest.Same(s, s.count("shop_emails WHERE status = 'finished'"), 1, "%s:%d: jobs that have finished", p.name, b.line)
}
