package proof

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// talk is a command that talks with the database.
type talk struct {
	// args are its arguments. Here and below, KEY and ID are those of a job in the queue files, FILE has three new jobs, and HOUR is
	// an hour with activity.
	args string
	// of is the job that it needs.
	of *subject
	// reset is a statement before it. done is a number that the command increases by 1.
	reset, done string
	// once means that it can't be repeated when nothing says whether it is done. busy means that it may take some time, and says
	// something else each time.
	once, busy bool
	// code is another exit code for a database that can't be reached, and again for a repetition when it is done already.
	code, again int
}

// subject is how jobs are made before a command takes one.
type subject struct {
	jobType, do string
	// works starts them.
	works bool
}

var (
	waiting  = &subject{jobType: "plain", do: "done"}
	awaiting = &subject{jobType: "sent", do: "done", works: true}
	failedOn = &subject{jobType: "fragile", do: "fatal", works: true}
)

const (
	live   = "SELECT COUNT(*) FROM proof_files WHERE job_key = 'KEY'"
	hours  = "DELETE FROM proof_metrics; DELETE FROM proof_hours"
	metric = "SELECT (SELECT COUNT(*) FROM proof_hours WHERE hour = 'HOUR') * ((SELECT COALESCE(SUM(added), 0) FROM proof_metrics) = " +
		"(SELECT COUNT(*) FROM proof_activity WHERE state = 'added'))"
)

// talks has all commands of docs/reference/commands.md that use the database, except those that follow it until they are
// interrupted.
var talks = []talk{
	{args: "init", done: "SELECT " + same("tables", "table") + " AND " + same("columns", "table") + " AND " + same("statistics", "table") +
		" AND " + same("routines", "routine") + " AND (SELECT COUNT(*) FROM hipq_tables WHERE instance = 'KEY') = " +
		"(SELECT COUNT(*) FROM hipq_tables WHERE instance = 'proof')", busy: true}, // first, since it lasts longest
	{args: "enqueue files plain --key KEY --in 700h --data DATA", done: live},
	{args: "enqueue files plain --in 700h --data DATA", done: "SELECT COUNT(*) FROM proof_files", once: true},
	{args: "enqueue files plain --key KEY --in 700h --data DATA --priority 7 --on-duplicate replace", of: waiting, done: live + " AND priority = 7"},
	{args: "enqueue files brandKEY --key KEY --in 700h --data DATA", done: live},
	{args: "enqueue --ndjson FILE", done: "SELECT COUNT(*) / 3 FROM proof_files WHERE job_key LIKE 'KEY-%'"},
	{args: "complete files sent KEY --data result", of: awaiting, done: live + " AND status = 'finished'"},
	{args: "fail files sent KEY --error excused", of: awaiting, done: live + " AND status = 'failed' AND error = 'excused'"},
	{args: "fail files sent KEY --retry --error excused", of: awaiting, done: live + " AND error = 'excused'"},
	{args: "retry files ID", of: failedOn, done: "SELECT COUNT(*) FROM proof_files WHERE retry_of = ID", again: 1},
	{args: "retry files --key KEY --yes", of: failedOn, done: "SELECT COUNT(*) FROM proof_files WHERE retry_of = ID"},
	{args: "dismiss files ID", of: failedOn, done: live + " AND status = 'closed'"},
	{args: "cancel files ID", of: waiting, done: live + " AND error = 'cancelled'", again: 1},
	{args: "cancel files --key KEY --running --yes", of: awaiting, done: live + " AND error = 'cancelled'"},
	{args: "reschedule files ID --in 800h --priority 7", of: waiting, done: live + " AND priority = 7"},
	{args: "run files ID", of: waiting, done: live + " AND status = 'finished'", once: true, busy: true},
	{args: "work --max-jobs 9 --json -v", done: "SELECT COUNT(*) / 4 FROM proof_files WHERE job_key LIKE 'KEY-%' AND status = 'finished'", busy: true},
	{args: "queues pause files", reset: "UPDATE proof_queues SET paused = 0", done: "SELECT paused FROM proof_queues WHERE queue = 'files'"},
	{args: "queues resume --all", reset: "UPDATE proof_queues SET paused = 1", done: "SELECT SUM(paused = 0) / 2 FROM proof_queues"},
	{args: "schedules pause nightly", reset: "UPDATE proof_schedules SET paused = 0", done: "SELECT paused FROM proof_schedules"},
	{args: "schedules resume nightly", reset: "UPDATE proof_schedules SET paused = 1", done: "SELECT 1 - paused FROM proof_schedules"},
	{args: "schedules run nightly", done: "SELECT COUNT(*) FROM proof_files WHERE job_key LIKE 'nightly@%'", once: true},
	{args: "monitor --at HOUR", of: waiting, reset: hours, done: metric},
	{args: "monitor --at HOUR --again --json", of: waiting, reset: hours, done: metric, busy: true},
	{args: "monitor --missing", of: waiting, reset: hours, done: metric},
	{args: "monitor --check", of: waiting, code: 3, busy: true},
	{
		args: "purge --force", of: waiting, reset: "INSERT INTO proof_activity (at, kind, state) VALUES ('2020-01-01', 'worker', 'finished')",
		done: "SELECT NOT EXISTS (SELECT 1 FROM proof_activity WHERE at < '2021-01-01')",
	},
	{args: "status --shards", of: awaiting},
	{args: "jobs", of: awaiting},
	{args: "jobs --json", of: failedOn},
	{args: "find KEY", of: failedOn},
	{args: "show files ID", of: failedOn},
	{args: "why files ID", of: waiting},
	{args: "failures", of: failedOn},
	{args: "activity --limit 9", of: failedOn},
	{args: "schedules"},
	{args: "doctor", of: waiting, code: 1, busy: true},
	{args: "config check --database"},
}

// silent are the commands without a talk, and why.
var silent = map[string]string{
	"completion": "without the database it knows fewer names", "config show": "uses no database",
	"man": "uses no database", "try": "uses no database", "ui": "its functions are those of other commands", "version": "uses no database",
}

// TestTalks checks that each command either has a talk, or a reason to have none.
func TestTalks(t *testing.T) {
	page := string(dbtest.Must(os.ReadFile("../../docs/reference/commands.md"))(t))
	commands := regexp.MustCompile("(?m)^## `hipq (.*)`$").FindAllStringSubmatch(page, -1)
	dbtest.Require(t, len(commands) > 20, "found only %d commands", len(commands))
	for _, c := range commands {
		has := slices.ContainsFunc(talks, func(k talk) bool { return strings.HasPrefix(k.args+" ", c[1]+" ") })
		dbtest.Ensure(t, has != (silent[c[1]] != ""), "hipq %s: has a talk: %v, a reason to have none: %q", c[1], has, silent[c[1]])
	}
}

// same says whether an instance named KEY has as many of these as the round's.
func same(what, of string) string {
	some := "(SELECT COUNT(*) FROM information_schema." + what + " WHERE " + of + "_schema = SCHEMA() AND " + of + "_name LIKE '%s\\_%%')"
	return fmt.Sprintf(some, "KEY") + " = " + fmt.Sprintf(some, "proof")
}

// packets breaks the connection at every question of one command and of its repetitions.
func packets(r *round) {
	k := talks[r.number-1]
	p := &parley{round: r, talk: k, proxy: dbtest.ProxyTo(r.t, r.source)}
	r.extend("schedules:\n  - {name: nightly, when: '@yearly', queue: files, type: plain, data: '%s'}\n", ask{Steps: []step{{Do: "done"}}}.data())
	p.prepare()
	rng := r.random(20)
	p.play("", func() bool { return false }) // what it says without a fault
	for n := 1; time.Now().Before(r.until); n++ {
		happened := false
		for part := dbtest.TheQuestion; part <= dbtest.TheAnswer; part++ {
			what, then := fmt.Sprintf("%s breaks %s %d", k.args, part, n), func() {}
			if rng.IntN(20) == 0 {
				what, then = what+", and can't be made again", p.proxy.Cut
			}
			broke := p.play(what, p.proxy.BreaksAt(n, part, then))
			happened = happened || broke
		}
		if !happened {
			break
		}
	}
	r.settings.rate = 0 // the times of its activity are made up
	_, _ = r.db.Exec("UPDATE proof_queues SET paused = 0")
	_, _ = r.db.Exec("UPDATE proof_files SET job_type = 'plain' WHERE job_type LIKE 'brand%'") // no worker has a handler for these
	dbtest.Must(r.run("reschedule", "files", "--all", "--in", "0s", "--yes"))(r.t)
	// clients that got no answer may have added jobs with keys that only hipq knows
	dbtest.OK(r.t, r.each("SELECT job_type, job_key FROM proof_files", func(rows *sql.Rows) error {
		a := ask{queue: "files", weight: 1, Steps: []step{{Do: "done"}}}
		err := rows.Scan(&a.jobType, &a.key)
		if len(a.key) == 36 || strings.HasPrefix(a.key, "nightly@") {
			r.asked(a)
		}
		return err
	}))
	r.live(workload{ticks: 2}, time.Minute, func(context.Context) {})
}

// parley is the talk of a round.
type parley struct {
	*round
	talk  talk
	proxy *dbtest.Proxy
	hour  string
	keys  []string
	made  int
	// says and ends are what it says without a fault, and its exit code.
	says    string
	ends    int
	replace *strings.Replacer
}

// prepare makes some more jobs for the command.
func (p *parley) prepare() {
	s, file := p.talk.of, filepath.Join(p.dir, "subjects")
	if s == nil {
		s = waiting
	}
	var lines strings.Builder
	for range 99 { // more than most commands need: with more jobs some say something else
		p.made++
		a := ask{queue: "files", jobType: s.jobType, key: named(p.made), weight: 1, Steps: []step{{Do: s.do}}, told: accepted}
		when := "2100-01-01T00:00:00Z"
		if s.works {
			when = "2020-01-01T00:00:00Z"
		}
		if strings.HasPrefix(p.talk.args, "complete ") {
			p.answers[a.queue+" "+a.key] = true
		} else if strings.Contains(p.talk.done, "cancelled") {
			a.excuse = "cancelled"
		} else if strings.HasPrefix(p.talk.args, "fail ") {
			a.excuse = "excused"
		}
		p.keys = append(p.keys, a.key)
		if p.talk.of == nil {
			continue // it makes its own
		}
		p.asked(a)
		if strings.HasPrefix(p.talk.args, "retry ") {
			p.asked(a) // once more
		}
		fmt.Fprintf(&lines, `{"queue":"files","job_type":%q,"job_key":%q,"job_data":%s,"timeout":"1h","scheduled_run_time":%q}`+"\n", a.jobType, a.key, a.data(), when)
	}
	if p.talk.of == nil {
		return
	}
	dbtest.OK(p.t, os.WriteFile(file, []byte(lines.String()), 0o600))
	_, err := p.run("enqueue", "--ndjson", file)
	if err == nil && s.works {
		_, err = p.run("work")
	}
	dbtest.OK(p.t, err)
	if p.hour == "" {
		p.hour = time.Now().UTC().Add(-3 * time.Hour).Format("2006-01-02 15:00:00")
	}
	dbtest.Must(p.db.Exec("UPDATE proof_activity SET at = ? + INTERVAL id MICROSECOND", p.hour))(p.t)
}

// named is a key that could also be an instance's name.
func named(n int) string {
	return "key_" + strings.Map(func(digit rune) rune { return digit - '0' + 'a' }, fmt.Sprintf("%04d", n))
}

// play runs the command for another job, and checks what it says against what is there.
func (p *parley) play(what string, happened func() bool) bool {
	if len(p.keys) == 0 {
		p.prepare()
	}
	key := p.keys[0]
	p.keys = p.keys[1:]
	id, file := 0, filepath.Join(p.dir, "jobs")
	_ = p.db.QueryRow("SELECT id FROM proof_files WHERE job_key = '" + key + "'").Scan(&id) // 0: there is none yet
	steps := ask{Steps: []step{{Do: "done"}}}
	var lines string
	for n := range 3 {
		lines += fmt.Sprintf(`{"queue":"files","job_type":"plain","job_key":"%s-%d","job_data":%s,"scheduled_run_time":"2100-01-01T00:00:00Z"}`+"\n", key, n, steps.data())
	}
	dbtest.OK(p.t, os.WriteFile(file, []byte(lines), 0o600))
	p.replace = strings.NewReplacer("KEY", key, "ID", fmt.Sprint(id), "FILE", file, "DATA", steps.data(), "HOUR", p.hour)
	p.asks = append(p.asks, p.wanted(key)...)
	for _, s := range strings.Split(p.replace.Replace(p.talk.reset), ";") {
		if s != "" {
			dbtest.Must(p.db.Exec(s))(p.t)
		}
	}

	before := p.count()
	out, said, code, took := p.ask(key)
	broke := happened()
	p.proxy.Mend()
	if what == "" {
		p.says, p.ends = plain(out+said), code
		dbtest.Require(p.t, code == 0 || p.talk.code > 0, "%s: exit code %d: %s%s", p.talk.args, code, out, said)
	} else if broke {
		p.inject("%s", what)
	}
	done := p.count() - before
	say := func(format string, args ...any) {
		p.violates("%s: %s\nexit code %d, %s, done %v times, %s%s", what, fmt.Sprintf(format, args...), code, took.Round(time.Millisecond), done, out, said)
	}
	if strings.Contains(said, "panic: ") || took > within {
		say("it panics, or lasts")
	}
	want := 0.0
	if p.talk.done != "" {
		want = 1
	}
	switch {
	case code == p.ends && done != want:
		say("it says that it is done")
	case code == p.ends && !p.talk.busy && plain(out+said) != p.says:
		say("it doesn't say what it says otherwise: %s", p.says)
	case code == p.ends && code > 0 && code == p.talk.code && plain(out+said) != p.says && !hungUp.MatchString(out+said): // without a fault doctor finds fault with a server for tests
		say("it neither says what it says otherwise, nor what broke: %s", p.says)
	case code == p.ends:
	case broke && (code == 75 || code == p.talk.code) && cutOff.MatchString(out+said):
		if done < 0 || done > want {
			say("it is done too often")
		}
		if !p.talk.once {
			p.repeat(key, before+want, say)
		}
	default:
		say("it has no reason")
	}
	if p.talk.args == "init" {
		p.drop(key)
	}
	return broke
}

// drop removes an instance: among hundreds of them each command takes longer.
func (p *parley) drop(instance string) {
	find := "SELECT CONCAT('DROP ', %[1]s, ' ', %[2]s_name) FROM information_schema.%[2]ss WHERE %[2]s_schema = SCHEMA() AND %[2]s_name LIKE '%[3]s\\_%%'"
	all := fmt.Sprintf(find, "IF(table_type = 'VIEW', 'VIEW', 'TABLE')", "table", instance) + " UNION ALL " + fmt.Sprintf(find, "routine_type", "routine", instance)
	dbtest.OK(p.t, p.each(all, func(rows *sql.Rows) error {
		var drop string
		if err := rows.Scan(&drop); err != nil {
			return err
		}
		_, err := p.db.Exec(drop)
		return err
	}))
	dbtest.Must(p.db.Exec("DELETE FROM hipq_tables WHERE instance = ?", instance))(p.t)
}

// repeat repeats the command without a fault, until it is done.
func (p *parley) repeat(key string, want float64, say func(string, ...any)) {
	for limit := time.Now().Add(time.Minute); ; time.Sleep(300 * time.Millisecond) {
		out, said, code, _ := p.ask(key)
		if (code == p.ends || code == p.talk.again) && p.count() == want {
			return
		}
		if !p.talk.busy || time.Now().After(limit) {
			say("repeated, it ends with %d, done %v times, %s%s", code, p.count(), out, said)
			return
		}
	}
}

// wanted are the jobs that the command asks for.
func (p *parley) wanted(key string) []ask {
	a := ask{queue: "files", jobType: "plain", key: key, weight: 1, Steps: []step{{Do: "done"}}}
	switch {
	case strings.HasPrefix(p.talk.args, "work"):
		all := []ask{a, a, a, a}
		for n, jobType := range []string{"plain", "stream", "asked", "brief"} {
			all[n].jobType, all[n].key = jobType, fmt.Sprintf("%s-%d", key, n)
			if jobType == "asked" {
				all[n].Steps = []step{{Do: "fail"}, {Do: "done"}}
			}
			all[n].told = p.insert(all[n])
		}
		return all
	case strings.Contains(p.talk.args, "replace"):
		a.excuse = "replaced"
	case strings.Contains(p.talk.args, "FILE"):
		three := []ask{a, a, a}
		for n := range three {
			three[n].key = fmt.Sprintf("%s-%d", key, n)
		}
		return three
	case !strings.Contains(p.talk.args, "--key KEY") || p.talk.of != nil:
		return nil
	}
	return []ask{a}
}

// ask runs the command through the proxy.
func (p *parley) ask(key string) (out, said string, code int, took time.Duration) {
	var o, e bytes.Buffer
	var args []string
	for _, a := range strings.Fields(p.talk.args) {
		args = append(args, p.replace.Replace(a))
	}
	c := p.command(args...)
	c.Env = append(c.Env, "HIPQ_DATABASE_DSN="+p.proxy.Source)
	if p.talk.args == "init" {
		c.Env = append(c.Env, "HIPQ_NAME="+key)
	}
	c.Stdout, c.Stderr = &o, &e
	began := time.Now()
	err := c.Run()
	if !errors.As(err, new(*exec.ExitError)) {
		dbtest.OK(p.t, err)
	}
	return o.String(), e.String(), c.ProcessState.ExitCode(), time.Since(began)
}

// count is how often the command is done.
func (p *parley) count() (n float64) {
	if p.talk.done != "" {
		dbtest.OK(p.t, p.db.QueryRow(p.replace.Replace(p.talk.done)).Scan(&n))
	}
	return n
}

var (
	someID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	someTime = regexp.MustCompile(`[0-9][0-9.,:]*(µs|ms|s|m|h|d)?`)
	someKey  = regexp.MustCompile(`key_[a-z]+`)
	someSpan = regexp.MustCompile(`from (\S+ \S+ UTC) to \S+ \S+ UTC`)
	gaps     = regexp.MustCompile(`0[0 ]*|  +`)
)

// cutOff matches what a command says if its connection broke.
var cutOff = regexp.MustCompile(`can't be reached|does not answer|the database is busy|lost its lock`)

// hungUp matches what doctor says if a check's connection broke. All checks go on.
var hungUp = regexp.MustCompile(cutOff.String() + "|invalid connection|unexpected EOF|no server has answered")

// plain leaves out what differs each time.
func plain(text string) string {
	text = someSpan.ReplaceAllString(someKey.ReplaceAllString(text, "KEY"), "at $1") // in one second, or in several
	return gaps.ReplaceAllString(someTime.ReplaceAllString(someID.ReplaceAllString(text, "0"), "0"), " ")
}
