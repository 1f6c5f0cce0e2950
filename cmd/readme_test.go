package cmd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// TestDocs checks the README and the guides against hipq. The word after a fence's language says how a block is tested:
//
//	sh quickstart   run in order in one folder; each command must succeed
//	sh tutorial     the same in the page's own folder, with a new MariaDB if the page uses one
//	text output     the output of the previous block, except for times, ids and hosts
//	sql enqueue     inserts jobs, on each engine
//	… enqueue       in any language: takes an order and enqueues its job over the connection db
//	sh mariadb, sh sqlite3, python sqlite   enqueue a job that hipq work can run
//	sh shop         the page's commands for an existing instance, run in order; each must succeed
//	sh source       run with a clone of this repository, and a folder as the system
//	sh make         the targets and tests that it names exist
//	json message    has the keys of what handlers read
//	text prometheus names metrics that hipq exports
//	sql twice       adds a job the first time and none the second, on each engine
//	sql worker      the calls of a worker in SQL, run with a job for each way to end one
//	sql calls       run on a new MariaDB, after what makes the jobs of the page's commands
//	sql admin       run on a new MariaDB; hipq init must then work
//	go run          run in an empty folder
//	go test         the test of the previous program
//	sh test, python test   run in order in one folder if the interpreter is installed
//	… handler       fails for good, with 65, for a job without data and key
//	… stream        answers two such jobs with failed
//	python django … run by the tests in clients/django
//	… verify        has a function verified, which tells hipq's signed requests from others
//	… decider       makes a job final after a failure for good or at its 6th attempt, else retries it
//	nginx proxy, caddyfile proxy   let in who has a password, and name that person to hipq ui, if the proxy is installed
//	crontab         run line by line, with only its own environment; must be silent
//	crontab cron.d  the same; each line names a user
//
// Also, each YAML config must load, each Go program compile and each hipq command with its flags exist. Links within
// the repository must have targets, and each picture must be on a page.
func TestDocs(t *testing.T) {
	dbtest.Long(t, "it builds a hipq of its own, without the race detector")
	t.Parallel()
	root := dbtest.Must(filepath.Abs(".."))(t)
	bin := t.TempDir()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(bin, "hipq"), ".")
	build.Dir = root
	succeeds(t, build)
	d := docs{root: root, bin: bin}
	var pages, story []page // story is the quick start and its continuation
	for _, names := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		found := dbtest.Must(filepath.Glob(filepath.Join(root, names)))(t)
		for _, file := range found {
			name := dbtest.Must(filepath.Rel(root, file))(t)
			p := d.read(t, name)
			pages = append(pages, p)
			if len(p.with("sh", "quickstart")) > 0 {
				story = append(story, p)
			}
		}
	}
	t.Run("quick start", func(t *testing.T) { d.quickStart(t, story) })
	t.Run("demo", d.demo)
	t.Run("install", d.install)
	t.Run("pictures", func(t *testing.T) { d.pictures(t, pages) })
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			t.Run("commands", func(t *testing.T) { d.commands(t, p) })
			t.Run("configs", func(t *testing.T) { configs(t, p) })
			t.Run("programs", func(t *testing.T) { d.programs(t, p) })
			t.Run("scripts", func(t *testing.T) { d.scripts(t, p) })
			t.Run("handlers", func(t *testing.T) { d.handlers(t, p) })
			t.Run("verify", func(t *testing.T) { d.verify(t, p) })
			t.Run("crontabs", func(t *testing.T) { d.crontabs(t, p) })
			t.Run("inserts", func(t *testing.T) { inserts(t, p) })
			t.Run("others", func(t *testing.T) { d.others(t, p) })
			t.Run("shop", func(t *testing.T) { d.shopCommands(t, p) })
			t.Run("twice", func(t *testing.T) { d.twice(t, p) })
			t.Run("worker", func(t *testing.T) { d.sqlWorker(t, p) })
			t.Run("calls", func(t *testing.T) { d.calls(t, p) })
			t.Run("admin", func(t *testing.T) { d.admin(t, p) })
			t.Run("source", func(t *testing.T) { d.source(t, p) })
			t.Run("targets", func(t *testing.T) { d.targets(t, p) })
			t.Run("metrics", func(t *testing.T) { d.metrics(t, p) })
			t.Run("messages", func(t *testing.T) { messages(t, p) })
			t.Run("states", func(t *testing.T) { states(t, p) })
			t.Run("fingerprints", func(t *testing.T) { fingerprints(t, p) })
			t.Run("run", func(t *testing.T) { allRun(t, p) })
			t.Run("proxies", func(t *testing.T) { d.proxies(t, p) })
			t.Run("container", func(t *testing.T) { d.container(t, p) })
			t.Run("tutorial", func(t *testing.T) { d.tutorial(t, p) })
			t.Run("links", func(t *testing.T) { d.links(t, p) })
			t.Run("tests", func(t *testing.T) { d.tests(t, p) })
			t.Run("claims", func(t *testing.T) { claims(t, p) })
			t.Run("grants", func(t *testing.T) { grants(t, p) })
		})
	}
}

type docs struct {
	root string
	bin  string // the folder of a fresh hipq
}

type page struct {
	name, text string
	fences     []codeBlock
}

type codeBlock struct {
	line           int
	language, mark string
	text           string
}

func (d docs) read(t *testing.T, name string) page {
	t.Helper()
	text := dbtest.Must(os.ReadFile(filepath.Join(d.root, name)))(t)
	p := page{name: name}
	open := false
	for i, line := range strings.Split(string(text), "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open:
			open = false
		case fence:
			open = true
			language, mark, _ := strings.Cut(info, " ")
			p.fences = append(p.fences, codeBlock{line: i + 1, language: language, mark: mark})
		case open:
			p.fences[len(p.fences)-1].text += line + "\n"
		default:
			p.text += line + "\n"
		}
	}
	dbtest.Require(t, !open, "%s: a fence is not closed", name)
	return p
}

func (p page) with(language, mark string) []codeBlock {
	return slices.DeleteFunc(slices.Clone(p.fences), func(b codeBlock) bool {
		return b.language != language || mark != "" && b.mark != mark
	})
}

// command returns a command with hipq in its PATH and its own home.
func (d docs) command(dir, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = []string{"PATH=" + d.bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C"}
	return c
}

func (d docs) quickStart(t *testing.T, story []page) {
	dbtest.Require(t, len(story) > 0 && story[0].name == "README.md", "README.md has no quick start")
	dir := t.TempDir()
	for _, p := range story {
		for i, b := range p.fences {
			if b.language != "sh" || b.mark != "quickstart" {
				continue
			}
			p.wantOutput(t, i, succeeds(t, d.command(dir, "sh", "-eu", "-c", b.text), p.name, b.line))
		}
	}
}

// wantOutput compares the output of the i-th block with the output block after it, if there is one.
func (p page) wantOutput(t *testing.T, i int, printed string) {
	t.Helper()
	if i+1 == len(p.fences) || p.fences[i+1].mark != "output" {
		return
	}
	d := diff.Diff("the page", timeless(p.fences[i+1].text), "the output", timeless(printed))
	dbtest.Ensure(t, d == nil, "%s:%d: the page shows another output than there is:\n%s", p.name, p.fences[i+1].line, d)
}

// changing matches what differs between runs.
var changing = []struct {
	what func() *regexp.Regexp
	by   string
}{
	{texts.Pattern(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?`), "TIME"},
	{texts.Pattern(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{texts.Pattern(`\b(\d+(\.\d+)?(ms|h|m|s))+\b`), "DURATION"},
	{texts.Pattern(`pid \d+ on [^\s,]+`), "pid N on HOST"},
	{texts.Pattern(`worker ID on \S+`), "worker ID on HOST"},
	{texts.Pattern(`  +`), "  "},
	{texts.Pattern(`(?m) +$`), ""},
}

// timeless replaces what differs between runs.
func timeless(text string) []byte {
	for _, c := range changing {
		text = c.what().ReplaceAllString(text, c.by)
	}
	return []byte(text)
}

// demo runs the tour of make demo.
func (d docs) demo(t *testing.T) {
	dir := t.TempDir()
	for from, to := range map[string]string{
		filepath.Join(d.root, "docs", "demo.sh"):   "docs/demo.sh",
		filepath.Join(d.root, "hipq.example.yaml"): "hipq.example.yaml",
		filepath.Join(d.bin, "hipq"):               "hipq",
	} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o700)
		}
		dbtest.OK(t, err)
	}
	before := dbtest.Must(os.ReadDir(dir))(t)
	succeeds(t, d.command(dir, "bash", "docs/demo.sh"))
	after := dbtest.Must(os.ReadDir(dir))(t)
	dbtest.Same(t, len(after), len(before), "it leaves something behind: %v", after)
}

var (
	inlineCode = texts.Pattern("`[^`\n]+`")
	invocation = texts.Pattern(`(?:^|[\s` + "`" + `(])hipq ([a-z]+)([^\n` + "`" + `|;&]*)`)
	longFlag   = texts.Pattern(`(?:^|[\s` + "`" + `])(--[a-z][a-z-]*)`)
	comment    = texts.Pattern(`(?m)(^|\s)#.*$`)
)

// commands finds unknown commands and flags in shell blocks, inline code and tables. In a table, the code of a row is
// about the command in its first cell.
func (d docs) commands(t *testing.T, p page) {
	var texts []string
	for _, b := range p.fences {
		if b.language == "sh" || b.language == "crontab" {
			texts = append(texts, strings.Split(comment().ReplaceAllString(b.text, ""), "\n")...)
		}
	}
	for line := range strings.Lines(p.text) {
		code := inlineCode().FindAllString(line, -1)
		if strings.HasPrefix(line, "| `hipq ") {
			code = []string{strings.ReplaceAll(strings.Join(code, " "), "`", "")}
		}
		texts = append(texts, code...)
	}
	helps := map[string]string{}
	for _, text := range texts {
		for _, m := range invocation().FindAllStringSubmatch(text, -1) {
			name := m[1]
			if _, ok := helps[name]; !ok {
				out, err := d.command(t.TempDir(), "hipq", name, "--help").CombinedOutput()
				dbtest.Ensure(t, err == nil && strings.Contains(string(out), "hipq "+name),
					"%s: there is no command %q: %s", p.name, name, text)
				helps[name] = string(out)
			}
			for _, flag := range longFlag().FindAllStringSubmatch(m[2], -1) {
				dbtest.Ensure(t, regexp.MustCompile(flag[1]+`\b`).MatchString(helps[name]),
					"%s: hipq %s has no flag %s: %s", p.name, name, flag[1], text)
			}
		}
	}
	dbtest.Ensure(t, p.name != "docs/reference/commands.md" || len(helps) >= 10, "%s: commands found: %d", p.name, len(helps))
}

// configs loads each config. It completes partial configs first.
func configs(t *testing.T, p page) {
	for _, b := range p.with("yaml", "") {
		text := b.text
		if !regexp.MustCompile(`(?m)^name:`).MatchString(text) {
			text += "name: shop\n"
		}
		if !regexp.MustCompile(`(?m)^queues:`).MatchString(text) {
			text += "queues: [{name: emails}]\n"
		}
		file := filepath.Join(t.TempDir(), "hipq.yaml")
		dbtest.OK(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := config.Load(config.LoadOptions{File: file, Env: []string{}})
		dbtest.Ensure(t, err == nil, "%s:%d: %v", p.name, b.line, err)
	}
}

// programs compiles each Go program as a package of this module, by an overlay, and runs the marked ones.
func (d docs) programs(t *testing.T, p page) {
	program := ""
	for i, b := range p.fences {
		if b.language != "go" {
			continue
		}
		dbtest.Ensure(t, !strings.Contains(b.text, "hipq/internal/"), "%s:%d: it uses what only hipq can", p.name, b.line)
		files, run := map[string]string{"main.go": b.text}, []string{"build"}
		if b.mark == "test" {
			files = map[string]string{"main.go": program, "main_test.go": b.text}
			run = []string{"test", "-c", "-vet=off"} // vet needs an existing folder
		}
		program = b.text
		dir := t.TempDir()
		replace := map[string]string{}
		for name, text := range files {
			replace[filepath.Join(d.root, "internal", "docsexample", name)] = filepath.Join(dir, name)
			dbtest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		overlay, err := json.Marshal(map[string]any{"Replace": replace})
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
		}
		dbtest.OK(t, err)
		run = append(run, "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", filepath.Join(dir, "program"), "./internal/docsexample")
		build := exec.Command("go", run...)
		build.Dir = d.root
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %v\n%s", p.name, b.line, err, out)
			continue
		}
		if b.mark != "run" && b.mark != "test" {
			continue
		}
		out := succeeds(t, d.command(t.TempDir(), filepath.Join(dir, "program")), p.name, b.line)
		if b.mark == "run" {
			p.wantOutput(t, i, out)
		}
	}
}

var (
	assignment  = texts.Pattern(`^([A-Z_]+)=(.*)$`)
	crontabLine = texts.Pattern(`^(?:[0-9*/,-]+ +){5}(.*)$`)
)

// crontabs runs each line as cron would, on an instance with a due job.
func (d docs) crontabs(t *testing.T, p page) {
	blocks, ran := p.with("crontab", ""), 0
	for _, b := range blocks {
		dir := t.TempDir()
		file := filepath.Join(dir, "hipq.yaml")
		const text = "name: shop\nqueues: [{name: emails, job_types: [{name: send, handler: {exec: [cat]}}]}]\n"
		dbtest.OK(t, os.WriteFile(file, []byte(text), 0o600))
		succeeds(t, d.command(dir, "sh", "-ec", "hipq init; hipq enqueue emails send"))
		env := []string{"HOME=" + dir, "HIPQ_WORKER_RUN_FOR=1s"} // because of --linger
		for line := range strings.Lines(b.text) {
			line = strings.TrimSpace(line)
			if m := assignment().FindStringSubmatch(line); m != nil {
				switch m[1] {
				case "PATH":
					line = "PATH=" + d.bin + ":" + m[2]
				case "HIPQ_CONFIG":
					line = "HIPQ_CONFIG=" + file
				}
				env = append(env, line)
				continue
			}
			m := crontabLine().FindStringSubmatch(line)
			if m == nil {
				dbtest.Same(t, line, "", "%s:%d: no line of a crontab", p.name, b.line)
				continue
			}
			run := m[1]
			if b.mark == "cron.d" {
				_, run, _ = strings.Cut(run, " ")
			}
			c := exec.Command("/bin/sh", "-c", run)
			c.Dir, c.Env = dir, env
			out, err := c.CombinedOutput()
			dbtest.Ensure(t, err == nil && len(out) == 0, "%s:%d: %s: %v\n%s", p.name, b.line, run, err, out)
			ran++
		}
	}
	dbtest.Ensure(t, ran >= 3*len(blocks) && len(blocks) >= map[string]int{"README.md": 1, "docs/howto/cron.md": 2}[p.name],
		"%s: lines of crontabs found: %d, in %d blocks", p.name, ran, len(blocks))
}

// checkPHP lets PHP check a program's syntax, if PHP is installed.
func checkPHP(t *testing.T, p page, b codeBlock) {
	if _, err := exec.LookPath("php"); err != nil {
		t.Logf("%s:%d: not read: %v", p.name, b.line, err)
		return
	}
	c := exec.Command("php", "-l")
	c.Stdin = strings.NewReader(b.text)
	succeeds(t, c, p.name, b.line)
}

// interpreters run programs in other languages.
var interpreters = map[string]string{"sh": "sh", "php": "php", "python": "python3", "ruby": "ruby", "js": "node"}

// scripts runs a page's tests in other languages than Go.
func (d docs) scripts(t *testing.T, p page) {
	dir, ran := t.TempDir(), 0
	for _, b := range p.fences {
		interpreter, known := interpreters[b.language]
		if !known || b.mark != "test" {
			continue
		}
		ran++
		if _, err := exec.LookPath(interpreter); err != nil {
			t.Logf("%s:%d: not run: %v", p.name, b.line, err)
			continue
		}
		file := filepath.Join(t.TempDir(), "test")
		dbtest.OK(t, os.WriteFile(file, []byte(b.text), 0o600))
		succeeds(t, d.command(dir, interpreter, file), p.name, b.line)
	}
	dbtest.Ensure(t, p.name != "docs/howto/testing.md" || ran >= 2, "%s: tests found: %d", p.name, ran)
}

// handlers runs a page's handlers and retry handlers, if their interpreters are installed, with a job that they can't
// process.
func (d docs) handlers(t *testing.T, p page) {
	const question = `{"id":7,"queue":"emails","job_type":"send","job_key":"none","job_data":null,"attempt":%d,` +
		`"error":"no such customer","outcome":%q,"retry_after":0}`
	asked := map[string][]struct {
		attempt       int
		outcome, want string
	}{
		"handler": {{1, "", ""}},
		"stream":  {{1, "", ""}},
		"decider": {{1, "failed", "final"}, {1, "retry", "again"}, {3, "retry", "again"}, {6, "retry", "final"}},
	}
	ran := 0
	for _, b := range p.fences {
		if b.language == "php" && (b.mark == "syntax" || b.mark == "wordpress") { // part of an application; it has its own server
			checkPHP(t, p, b)
			continue
		}
		if b.mark == "test" || b.mark == "verify" { // tested elsewhere
			continue
		}
		if asked[b.mark] == nil {
			_, known := interpreters[b.language]
			if known && b.language != "sh" && b.mark != "enqueue" && b.mark != "time" && b.mark != "sqlite" && !strings.HasPrefix(b.mark, "django") { // those are tested elsewhere
				t.Errorf("%s:%d: this program is run by no test: mark it as a handler, a stream or a decider", p.name, b.line)
			}
			continue
		}
		ran++
		interpreter := interpreters[b.language]
		if _, err := exec.LookPath(interpreter); err != nil {
			t.Logf("%s:%d: not run: %v", p.name, b.line, err)
			continue
		}
		dir := t.TempDir()
		dbtest.OK(t, os.WriteFile(filepath.Join(dir, "handler"), []byte(b.text), 0o600))
		for _, q := range asked[b.mark] {
			c := d.command(dir, interpreter, "handler")
			c.Env = append(c.Env, "HIPQ_JOB_KEY=none", "HIPQ_JOB_ID=7")
			input := fmt.Sprintf(question, q.attempt, q.outcome)
			if b.mark == "stream" {
				input += "\n" + strings.Replace(input, `"id":7`, `"id":8`, 1) + "\n"
			}
			c.Stdin = strings.NewReader(input)
			out, err := c.CombinedOutput()
			switch {
			case b.mark == "stream" && (err != nil || !bothFailed().Match(out)):
				t.Errorf("%s:%d: %v, want two answers\n%s", p.name, b.line, err, out)
			case b.mark == "handler" && c.ProcessState.ExitCode() != 65:
				t.Errorf("%s:%d: %v, want exit status 65\n%s", p.name, b.line, err, out)
			case b.mark == "decider" && (err != nil || !strings.HasPrefix(string(out), `{"decision": "`+q.want+`"`)):
				t.Errorf("%s:%d: %s at attempt %d: %v, want %s\n%s", p.name, b.line, q.outcome, q.attempt, err, q.want, out)
			}
		}
	}
	dbtest.Ensure(t, ran >= map[string]int{"docs/howto/handlers.md": 3, "docs/howto/streams.md": 2, "docs/howto/retry-handler.md": 1}[p.name],
		"%s: handlers found: %d", p.name, ran)
}

// bothFailed matches the answers of a stream.
var bothFailed = texts.Pattern(`^\{"id": ?7, ?"outcome": ?"failed", ?"error":.*\}\n\{"id": ?8, ?"outcome": ?"failed", ?"error":.*\}\n$`)

// inserts runs the plain INSERTs, which must become jobs.
func inserts(t *testing.T, p page) {
	blocks := p.with("sql", "enqueue")
	if len(blocks) == 0 {
		return
	}
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		q := dbtest.Must(queue.New(db, queue.Options{Name: "emails"}))(t)
		for _, b := range blocks {
			_, err := db.SQL.ExecContext(t.Context(), b.text)
			dbtest.Ensure(t, err == nil, "%s:%d: %v", p.name, b.line, err)
		}
		dbtest.Must((*store.Queue)(q).Upkeep(t.Context(), workers.Worker{ID: "docs"}, store.Poll{New: true}, nil, nil))(t)
		n := 0
		err := admin.Of(q).Find(t.Context(), admin.Filter{}, func(j *job.Job) error {
			n++
			if j.State() != job.Initial || j.Status != "available" && j.Status != "scheduled" {
				return fmt.Errorf("job %d is %s, %s: %s", j.ID, j.State(), j.Status, j.Error)
			}
			return nil
		})
		dbtest.Ensure(t, err == nil, "%v", err)
		dbtest.Ensure(t, n == len(blocks), "%d jobs of %d", n, len(blocks))
	})
}

var (
	link    = texts.Pattern(`\]\(([^)\s]+)\)`)
	heading = texts.Pattern(`(?m)^#+ (.*)$`)
	notID   = texts.Pattern(`[^\p{L}\p{N} _-]`)
)

// pictures checks that each picture is small and on a page. links checks that the pictures on a page exist.
func (d docs) pictures(t *testing.T, pages []page) {
	files := dbtest.Must(filepath.Glob(filepath.Join(d.root, "docs", "pictures", "*")))(t)
	dbtest.Ensure(t, len(files) > 0, "there are no pictures")
	for _, file := range files {
		name, info := filepath.Base(file), dbtest.Must(os.Stat(file))(t)
		dbtest.Ensure(t, info.Size() < 150_000, "%s is too large: %d bytes", name, info.Size())
		shown := slices.ContainsFunc(pages, func(p page) bool { return strings.Contains(p.text, "pictures/"+name+")") })
		dbtest.Ensure(t, shown, "no page shows %s", name)
	}
}

// links follows the links within the repository.
func (d docs) links(t *testing.T, p page) {
	for _, m := range link().FindAllStringSubmatch(p.text, -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		file, anchor, _ := strings.Cut(m[1], "#")
		target := p
		if file != "" {
			name := filepath.Join(filepath.Dir(p.name), file)
			if _, err := os.Stat(filepath.Join(d.root, name)); err != nil {
				t.Errorf("%s: link to %s: %v", p.name, m[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			target = d.read(t, name)
		}
		var anchors []string
		for _, h := range heading().FindAllStringSubmatch(target.text, -1) {
			anchors = append(anchors, strings.ReplaceAll(notID().ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
		}
		dbtest.Ensure(t, slices.Contains(anchors, anchor), "%s: link to %s: no such heading", p.name, m[1])
	}
}
