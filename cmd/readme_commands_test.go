package cmd_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// shopConfig is the instance of the pages' commands. The script send.sh is the handler of job type send.
const shopConfig = `name: shop
queues:
  - name: emails
    job_types:
      - {name: send, retry: {attempts: 1}, handler: {exec: [sh, send.sh]}}
      - {name: report, handler: {exec: [cat]}}
  - name: requests
    job_types: [{name: upload, async: true, handler: {exec: [cat]}}]
schedules: [{name: nightly-report, when: "30 2 * * *", queue: emails, type: report}]
`

// before has what the commands of a page need: programs, and a script that makes their jobs and files.
var before = map[string]struct {
	clients []string
	script  string
}{
	"docs/howto/asynchronous.md": {nil, `for n in 1 2 3 4; do hipq enqueue requests upload --key order-471$n; done; hipq work`},
	"docs/howto/backup.md":       {[]string{"sqlite3"}, `mkdir backup`},
	"docs/howto/cancel.md":       {nil, `hipq enqueue emails send --key order-4711 --in 1h`},
	"docs/howto/coming-from.md":  {nil, `echo '{"queue":"emails","job_type":"send","job_key":"1"}' > delayed.ndjson`},
	"docs/howto/cron.md":         {nil, `cp hipq.yaml hipq.yaml.new`},
	"docs/howto/enqueue.md":      {nil, `echo '{"to":"bob@example.org"}' > letter.json`},
	"docs/howto/incidents.md": {[]string{"sqlite3"}, `
next() { sqlite3 hipq.db "INSERT OR REPLACE INTO sqlite_sequence (rowid, name, seq) SELECT max(rowid), 'shop_emails', $1 - 1 FROM sqlite_sequence WHERE name = 'shop_emails'"; }
echo '[ "$HIPQ_JOB_KEY" != 4242 ] || { echo "no such customer: 4242"; exit 65; }; echo "connect to 10.0.0.25:25: connection refused"; exit 1' > send.sh
hipq enqueue emails send --key 4242
next 4711
hipq enqueue emails send
hipq enqueue emails send
hipq work
next 9001
echo 'true' > send.sh
`},
	"docs/howto/schedules.md":     {nil, ``},
	"examples/handlers/README.md": {[]string{"jq", "python3", "php", "ruby", "node"}, `cp -r "$ROOT/examples" . && echo 'module examples' > go.mod`},
}

// shopCommands runs a page's commands in order, in a folder with an instance.
func (d docs) shopCommands(t *testing.T, p page) {
	blocks := p.with("sh", "shop")
	if len(blocks) == 0 {
		return
	}
	for _, name := range before[p.name].clients {
		dbtest.Client(t, name)
	}
	dir := t.TempDir()
	dbtest.OK(t, os.WriteFile(filepath.Join(dir, "hipq.yaml"), []byte(shopConfig), 0o600))
	dbtest.OK(t, os.WriteFile(filepath.Join(dir, "send.sh"), []byte("cat\n"), 0o600))
	d.shell(t, p, dir, "hipq init\n"+before[p.name].script)
	text := ""
	for _, b := range blocks {
		text += b.text
	}
	here := strings.NewReplacer("/etc/hipq", dir, "/backup", filepath.Join(dir, "backup"), "PATH=/usr/local/bin:", "PATH="+d.bin+":",
		" --fingerprint", " --yes --fingerprint") // there is no terminal to ask on
	out := d.shell(t, p, dir, here.Replace(text))
	dbtest.Ensure(t, !strings.Contains(out, "nothing was changed"), "%s: a command finds no job:\n%s", p.name, out)
}

// shell runs a page's script in a folder. It may use Go's caches, and ROOT, the repository.
func (d docs) shell(t *testing.T, p page, dir, script string) string {
	t.Helper()
	c := d.command(dir, "sh", "-eux", "-c", script)
	c.Env = append(c.Env, "ROOT="+d.root)
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		out := dbtest.Must(exec.Command("go", "env", name).Output())(t)
		c.Env = append(c.Env, name+"="+strings.TrimSpace(string(out)))
	}
	return succeeds(t, c, p.name)
}

// source builds and installs from a clone of the last commit. A folder stands for the system.
func (d docs) source(t *testing.T, p page) {
	for _, b := range p.with("sh", "source") {
		if _, err := os.Stat(filepath.Join(d.root, ".git")); err != nil {
			t.Skip(err)
		}
		dir := t.TempDir()
		script := strings.NewReplacer("https://github.com/hipq/hipq", `--quiet "file://$ROOT" hipq`, "sudo make install", `make install DESTDIR="$HOME/system"`)
		d.shell(t, p, dir, script.Replace(b.text)+"../system/usr/local/bin/hipq version\n")
	}
}

// targets checks that what a block tells make to do exists, and that the tests that it names do.
func (d docs) targets(t *testing.T, p page) {
	for _, b := range p.with("sh", "make") {
		script := strings.NewReplacer("make ", "make -n ", ".ci/run ", "test -x .ci/run ", ".ci/with-mariadb ", "", ".ci/with-mysql ", "",
			" -run TestRetry", " -list TestRetry | grep -q TestRetry")
		d.shell(t, p, t.TempDir(), `cd "$ROOT"`+"\n"+script.Replace(b.text))
	}
}

// metrics checks that hipq exports the metrics that a block names.
func (d docs) metrics(t *testing.T, p page) {
	for _, b := range p.with("text", "prometheus") {
		const setup = "echo '{name: shop, queues: [{name: emails}]}' > hipq.yaml; hipq init; hipq enqueue emails send; hipq monitor --output prometheus"
		out := d.shell(t, p, t.TempDir(), setup)
		for _, name := range regexp.MustCompile(`hipq_\w+`).FindAllString(b.text, -1) {
			dbtest.Ensure(t, strings.Contains(out, "\n"+name+"{"), "%s:%d: no %s in\n%s", p.name, b.line, name, out)
		}
	}
}

// messages checks that a block has the keys of what a handler reads.
func messages(t *testing.T, p page) {
	for _, b := range p.with("json", "message") {
		var shown, read map[string]any
		dbtest.OK(t, json.Unmarshal([]byte(b.text), &shown))
		dbtest.OK(t, json.Unmarshal(handler.Message(&job.Job{}), &read))
		dbtest.Same(t, strings.Join(slices.Sorted(maps.Keys(shown)), " "), strings.Join(slices.Sorted(maps.Keys(read)), " "), "%s:%d: keys", p.name, b.line)
	}
}

var shownKind = texts.Pattern(`(exit status \d+: [^\n]*)\n(?:  look[^\n]*\n)?[^\n]* --fingerprint (\w+)`)

// fingerprints checks that the fingerprint of a shown error is its own.
func fingerprints(t *testing.T, p page) {
	for _, b := range p.fences {
		for _, m := range shownKind().FindAllStringSubmatch(b.text, -1) {
			dbtest.Same(t, m[2], texts.Fingerprint(m[1]), "%s:%d: the fingerprint of %s", p.name, b.line, m[1])
		}
	}
}

var stateWord = texts.Pattern(`[A-Za-z]+`)

// states checks that --state of hipq jobs takes each word by which the page of a job's life says where it stands.
func states(t *testing.T, p page) {
	if p.name != "docs/explanation/lifecycle.md" {
		return
	}
	known, found := slices.Concat(admin.Statuses, admin.Stored), 0
	for line := range strings.Lines(p.text) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && !strings.HasPrefix(line, "| status") {
			for _, word := range stateWord().FindAllString(strings.Join(cells[1:4], " "), -1) {
				dbtest.Ensure(t, slices.Contains(known, admin.Status(strings.ToLower(word))), "%s: --state doesn't take %s", p.name, word)
				found++
			}
		}
	}
	dbtest.Ensure(t, found >= 3*len(job.Statuses), "%s: words found: %d", p.name, found)
}

// unrun has the blocks that no test runs, by a text in them, and why.
var unrun = map[string]string{
	"docker ":                           "it needs Docker",
	"runuser ":                          "it needs a user hipq, whom only root can add",
	"useradd --system --home-dir":       "it needs root",
	"systemctl enable":                  "it needs systemd; the units are those of docs/examples, which are checked",
	"command[check_hipq]":               "it is for Nagios and Icinga",
	"hipq retry emails --type send --f": "output of thousands of jobs; only the fingerprints are checked",
	"hipq ui: http://127.0.0.1":         "ui.txtar compares it",
	"ssh -t -L 8080":                    "it needs another host",
	".ci/proof 'signals":                "a turn takes ten minutes; make crash runs a part of one",
	"INSERT INTO hipq.shop_emails":      "it needs a database of this name",
	"ignore_tables = ":                  "it needs Rails",
	"schema_filter: ":                   "it needs Doctrine",
	"def include_name":                  "it needs Alembic",
	"pip install /usr/local/src":        "it needs pip and Composer, and the packages that they fetch",
	"gem \"hipq\", path":                "it needs Bundler",
	"warning  loopback:":                "output of a server that is set up so",
}

// allRun checks that each block has a test, or a reason for having none.
func allRun(t *testing.T, p page) {
	if p.name == "docs/reference/commands.md" { // it is generated from the commands
		return
	}
	for _, b := range p.fences {
		tested := b.mark != "" || slices.Contains([]string{"yaml", "crontab", "go", "dockerfile"}, b.language)
		for text := range unrun {
			tested = tested || strings.Contains(b.text, text)
		}
		dbtest.Ensure(t, tested, "%s:%d: no test runs this", p.name, b.line)
	}
}
