package cmd_test

import (
	"database/sql"
	"errors"
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

// language is one in which a page enqueues: what makes a program of its lines, for a database, and what runs it.
type language struct {
	file string
	// around has the lines in the middle.
	around string
	// run runs the program; check reads it, where the driver is not here. probe says whether that is here.
	run, check, probe []string
}

const jdbc = "/usr/share/java/mariadb-java-client.jar" // Debian's libmariadb-java

var languages = map[string]language{
	"php": {
		"job.php", "<?php $db = new PDO('mysql:host={host};port={port};dbname={name};charset=utf8mb4', '{user}', '{password}');\n{lines}",
		[]string{"{client}", "job.php"},
		nil, nil,
	},
	"python": {
		"job.py", "import json, pymysql\ndb = pymysql.connect(host='{host}', port={port}, user='{user}', password='{password}', " +
			"database='{name}', charset='utf8mb4')\n{lines}",
		[]string{"{client}", "job.py"},
		nil, nil,
	},
	"js": {
		"job.cjs", "(async () => {\nconst db = await require('mysql2/promise').createConnection({host: '{host}', port: {port}, user: '{user}', " +
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

// others runs what a page says to those who enqueue without hipq: in other languages, in a transaction of their own that
// takes an order too, and with the clients of the databases.
func (d docs) others(t *testing.T, p page) {
	for _, b := range p.fences {
		name := fmt.Sprintf("%s %s", b.language, b.mark)
		switch name {
		case "sh mariadb":
			t.Run(name, func(t *testing.T) { d.client(t, p, b, "mysql") })
		case "sh sqlite3", "python sqlite":
			t.Run(name, func(t *testing.T) { d.client(t, p, b, "sqlite") })
		}
		if l, known := languages[b.language]; known && b.mark == "enqueue" {
			t.Run(name, func(t *testing.T) { d.enqueue(t, p, b, l) })
		}
	}
}

// shop makes an instance with a queue, in a folder whose config it is, with a table of orders beside it.
func (d docs) shop(t *testing.T, driver string) (dir string, db *sql.DB, fill *strings.Replacer) {
	t.Helper()
	dir = t.TempDir()
	where, source, values := "", filepath.Join(dir, "hipq.db"), []string(nil)
	if driver == "mysql" {
		source = dbtest.MySQL(t)
		where = fmt.Sprintf("database: {driver: mysql, dsn: %q}\n", source)
		c, err := mysql.ParseDSN(source)
		if err != nil {
			t.Fatal(err)
		}
		host, port, err := net.SplitHostPort(c.Addr)
		if err != nil {
			t.Fatal(err)
		}
		values = []string{"{host}", host, "{port}", port, "{user}", c.User, "{password}", c.Passwd, "{name}", c.DBName}
	}
	fill = strings.NewReplacer(values...)
	text := "name: shop\n" + where + "queues: [{name: emails, job_types: [{name: send, handler: {exec: [cat]}}]}]\n"
	if err := os.WriteFile(filepath.Join(dir, "hipq.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := d.command(dir, "hipq", "init").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	db, err := sql.Open(driver, source)
	if err == nil {
		_, err = db.Exec("CREATE TABLE orders (number INT NOT NULL PRIMARY KEY, customer TEXT NOT NULL)")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return dir, db, fill
}

// enqueue runs lines that take an order and enqueue its job.
func (d docs) enqueue(t *testing.T, p page, b codeBlock, l language) {
	client := ""
	if l.probe == nil { // these two have to be here
		client = dbtest.Client(t, b.language)
	} else if _, err := exec.LookPath(l.run[0]); err != nil {
		t.Skip(err)
	}
	dir, db, fill := d.shop(t, "mysql")
	program := fill.Replace(strings.Replace(l.around, "{lines}", b.text, 1))
	if err := os.WriteFile(filepath.Join(dir, l.file), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(argv []string) *exec.Cmd {
		c := exec.Command(strings.Replace(argv[0], "{client}", client, 1), argv[1:]...)
		c.Dir = dir
		return c
	}
	run := l.run
	if l.probe != nil && command(l.probe).Run() != nil {
		t.Log("read and not run: its driver is not here")
		run = l.check
	}
	if out, err := command(run).CombinedOutput(); err != nil {
		t.Fatalf("%s:%d: %v\n%s", p.name, b.line, err, out)
	}
	orders, jobs := 0, 0
	err := errors.Join(db.QueryRow("SELECT COUNT(*) FROM orders").Scan(&orders),
		db.QueryRow("SELECT COUNT(*) FROM shop_emails WHERE job_type = 'send' AND job_key = 'order-4711'").Scan(&jobs))
	if want := 1; err != nil || &run[0] == &l.run[0] && (orders != want || jobs != want) {
		t.Errorf("%s:%d: %d orders, %d jobs (%v)", p.name, b.line, orders, jobs, err)
	}
}

// client runs lines by which a client of a database enqueues a job, and then the job.
func (d docs) client(t *testing.T, p page, b codeBlock, driver string) {
	program := dbtest.Client(t, map[string]string{"sh mariadb": "mariadb", "sh sqlite3": "sqlite3", "python sqlite": "python"}[b.language+" "+b.mark])
	dir, db, fill := d.shop(t, driver)
	argv := []string{"sh", "-euc", b.text}
	switch b.mark {
	case "mariadb":
		options := fill.Replace("[client]\nhost={host}\nport={port}\nuser={user}\npassword={password}\n")
		if err := os.WriteFile(filepath.Join(dir, ".my.cnf"), []byte(options), 0o600); err != nil {
			t.Fatal(err)
		}
		argv[2] = strings.Replace(b.text, "mariadb shop ", program+fill.Replace(" {name} "), 1)
	case "sqlite":
		argv = []string{program, "-c", b.text}
	}
	for _, argv := range [][]string{argv, {"hipq", "work"}} {
		if out, err := d.command(dir, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s:%d: %v\n%s", p.name, b.line, err, out)
		}
	}
	finished := 0
	if err := db.QueryRow("SELECT COUNT(*) FROM shop_emails WHERE line = 'finished'").Scan(&finished); err != nil || finished != 1 {
		t.Errorf("%s:%d: %d jobs have finished (%v)", p.name, b.line, finished, err)
	}
}
