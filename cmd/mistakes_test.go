package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/cmd"
	"github.com/hipq/hipq/internal/dbtest"
)

const mistakenConfig = `
name: shop
database: %s
queues:
  - name: files
    job_types: [{name: compress, handler: {exec: ["true"]}}]
  - name: emails
`

// mistakes are mistyped command lines with their messages: one sentence, a suggestion if possible, and the command's
// usage line. Lines without usage are correct, but name something that doesn't exist.
var mistakes = []struct{ line, says, usage string }{
	// commands
	{"pause files", `there is no command "pause"; did you mean hipq queues pause?`, "COMMAND"},
	{"resume files", `there is no command "resume"; did you mean hipq queues resume?`, "COMMAND"},
	{"stop files --now", `there is no command "stop"; did you mean hipq queues pause?`, "COMMAND"},
	{"list", `there is no command "list"; did you mean hipq jobs?`, "COMMAND"},
	{"job files", `there is no command "job"; did you mean hipq jobs?`, "COMMAND"},
	{"ls files", `there is no command "ls"; did you mean hipq jobs?`, "COMMAND"},
	{"enqueu files compress", `there is no command "enqueu"; did you mean hipq enqueue?`, "COMMAND"},
	{"push files compress", `there is no command "push"; did you mean hipq enqueue?`, "COMMAND"},
	{"statsu", `there is no command "statsu"; did you mean hipq status?`, "COMMAND"},
	{"delete files 3", `there is no command "delete"; did you mean hipq cancel or hipq purge?`, "COMMAND"},
	{"requeue files 3", `there is no command "requeue"; did you mean hipq retry?`, "COMMAND"},
	{"logs", `there is no command "logs"; did you mean hipq activity?`, "COMMAND"},
	{"migrate", `there is no command "migrate"; did you mean hipq init?`, "COMMAND"},
	{"start", `there is no command "start"; did you mean hipq work?`, "COMMAND"},
	{"check", `there is no command "check"; did you mean hipq config check?`, "COMMAND"},
	{"xyzzy 'a;b'", `there is no command "xyzzy"`, "COMMAND"},
	{"queue stop files", `queues: there is no command "queues stop"; did you mean hipq queues pause?`, "queues COMMAND"},
	{"queues files pause", `queues: there is no command "queues files"`, "queues COMMAND"},
	{"config get", `config: there is no command "config get"; did you mean hipq config show?`, "config COMMAND"},
	{"config chek", `config: there is no command "config chek"; did you mean hipq config check?`, "config COMMAND"},
	{"help enqueu", `help: there is no help on "enqueu"; did you mean hipq enqueue?`, "help [command]"},
	{"init --print-grants=9", `--print-grants=9: want a part from 1 to 8, or none for all`, ""},
	{"init --print --print-grants", `init: --print and --print-grants can't be given together`, "init"},
	{"completion tcsh", `SHELL: "tcsh" is not one of bash, zsh, fish, powershell`, ""},

	// arguments
	{"retry 1", `retry: QUEUE is missing before 1`, "retry QUEUE [ID…]"},
	{"show 1", `show: QUEUE is missing before 1`, "show QUEUE ID"},
	{"show", `show: QUEUE and ID are missing`, "show QUEUE ID"},
	{"show files", `show: ID is missing`, "show QUEUE ID"},
	{"show 42 files", `show: "files" is not the id of a job`, "show QUEUE ID"},
	{"cancel 41 42", `unknown queue: "41"; known: emails, files`, ""},
	{"show files abc", `show: "abc" is not the id of a job`, "show QUEUE ID"},
	{"show files -- -1", `show: "-1" is not the id of a job`, "show QUEUE ID"},
	{"show files 0", `show: "0" is not the id of a job`, "show QUEUE ID"},
	{"show files 99999999999999999999", `show: "99999999999999999999" is not the id of a job`, "show QUEUE ID"},
	{"cancel files 1 2,3", `cancel: "2,3" is not the id of a job`, "cancel QUEUE [ID…]"},
	{"show files 42 43", `show: it takes no more than QUEUE and ID, but got "43"`, "show QUEUE ID"},
	{"jobs files emails", `jobs: it takes no more than QUEUE, but got "emails"`, "jobs [QUEUE]"},
	{"jobs ''", `jobs: QUEUE is empty`, "jobs [QUEUE]"},
	{"init now", `init: it takes no arguments, but got "now"`, "init"},
	{"activity files", `activity: it takes no arguments, but got "files"`, "activity"},
	{"enqueue files", `enqueue: TYPE is missing`, "enqueue QUEUE TYPE | --ndjson FILE"},
	{"enqueue files ''", `enqueue: TYPE is empty`, "enqueue QUEUE TYPE | --ndjson FILE"},
	{"complete files compress", `complete: KEY is missing`, "complete QUEUE TYPE KEY"},
	{"complete files compress ''", `complete: KEY is empty`, "complete QUEUE TYPE KEY"},
	{"reschedule files --in 1h", `reschedule: give ids, or --type, --key, --state, --error, --fingerprint, --since, --until or --all`, "reschedule QUEUE [ID…]"},
	{"reschedule files 1", `reschedule: give --at, --in or --priority`, "reschedule QUEUE [ID…]"},
	{
		"enqueue --ndjson jobs.ndjson files compress", `enqueue: with --ndjson each line names its queue and type; leave out "files"`,
		"enqueue QUEUE TYPE | --ndjson FILE",
	},

	// values of flags
	{"jobs --limit -1", `--limit: -1 is negative`, ""},
	{"activity --limit -1", `--limit: -1 is negative`, ""},
	{"jobs --limit all", `jobs: --limit: "all" is not a whole number`, "jobs [QUEUE]"},
	{"activity --job -1", `--job: -1 is not the id of a job`, ""},
	{"work --run-for 0", `invalid flag: --run-for: "0" is out of range (1s to 3650d)`, ""},
	{"work --batch -1", `invalid flag: --batch: -1 is out of range (1 to 10000)`, ""},
	{"work --batch 10001", `invalid flag: --batch: 10001 is out of range (1 to 10000)`, ""},
	{"enqueue files compress --in -5m", `--in: "-5m" is negative; write a number with a unit: 30s, 5m, 24h, 14d, 1w, 1h30m`, ""},
	{"purge --older-than 3", `--older-than: "3" has no unit; write 3s, 3m, 3h, 3d or 3w`, ""},
	{"enqueue files compress --timeout 0", `--timeout: "0" is shorter than a second`, ""},

	// names
	{"enqueue fils compress", `unknown queue: "fils"; known: emails, files; did you mean files?`, ""},
	{"enqueue compress files", `unknown queue: "compress"; known: emails, files`, ""},
	{"complete compress files k", `unknown queue: "compress"; known: emails, files`, ""},
	{"complete files k compress", `unknown job type "k"; known: compress`, ""},
	{"complete files comprss k", `unknown job type "comprss"; known: compress; did you mean compress?`, ""},
	{"jobs emails --type compress", `--type: unknown job type "compress"; there is none`, ""},
	{"jobs --type compres", `--type: unknown job type "compres"; known: compress; did you mean compress?`, ""},
	{
		"jobs --state finishd", `--state: "finishd" is not one of initial, running, error, retry, final, due, held, scheduled, locked, waiting, ` +
			`failed, closed, finished, submitted, available, throttled, answered, awaiting, deciding, undecided; did you mean finished?`, "",
	},
	{"activity --state fialed", `--state: "fialed" is not one of added, starting, finished, error, failed, cancelled; did you mean failed?`, ""},
	{"enqueue --ndjson - --on-duplicate kep", `--on-duplicate: "kep" is not one of keep, replace, error; did you mean keep?`, ""},

	{"schedules pause nightly", `unknown schedule: "nightly"; the config has no schedules`, ""},

	// flags
	{"jobs --stat failed", `jobs: there is no flag --stat; did you mean --state?`, "jobs [QUEUE]"},
	{"purge --olderthan 3d", `purge: there is no flag --olderthan; did you mean --older-than?`, "purge"},
	{"show --queue files 1", `show: there is no flag --queue`, "show QUEUE ID"},
	{"--confg x jobs", `jobs: there is no flag --confg; did you mean --config?`, "jobs [QUEUE]"},
	{"--fast", `there is no flag --fast`, "COMMAND"},
	{"jobs -json", `jobs: there is no flag -json; did you mean --json?`, "jobs [QUEUE]"},
	{"jobs -x", `jobs: there is no flag -x`, "jobs [QUEUE]"},
	{"jobs --=x", `jobs: "--=x" is not a flag`, "jobs [QUEUE]"},
	{"jobs --type", `jobs: --type needs a value: only jobs of this job type`, "jobs [QUEUE]"},
	{"jobs --limit ten", `jobs: --limit: "ten" is not a whole number`, "jobs [QUEUE]"},
	{"jobs --limit 99999999999999999999", `jobs: --limit: "99999999999999999999" is too large a number`, "jobs [QUEUE]"},
	{"jobs --json=perhaps", `jobs: --json: "perhaps" is neither true nor false`, "jobs [QUEUE]"},
	{"activity --queue files --job one", `activity: --job: "one" is not a whole number`, "activity"},
	{"enqueue files compress --throttle-factor 0.5", `enqueue: --throttle-factor: "0.5" is not a whole number`, "enqueue QUEUE TYPE | --ndjson FILE"},
	{"enqueue files compress --at 10:00 --in 1h", `enqueue: --at and --in can't be given together`, "enqueue QUEUE TYPE | --ndjson FILE"},
	{"reschedule files 1 --at 10:00 --in 1h", `reschedule: --at and --in can't be given together`, "reschedule QUEUE [ID…]"},
	{"enqueue --ndjson jobs.ndjson --key a", `enqueue: --key and --ndjson can't be given together`, "enqueue QUEUE TYPE | --ndjson FILE"},
	{"enqueue files compress --key ''", `--key is empty; give it a value, or leave it out`, ""},
}

// foreign are words from messages of cobra, pflag and strconv, which are for programmers.
var foreign = []string{
	"arg(s)", "accepts", "requires at least", "received", "flags in the group", "none of the others", "unknown command", "unknown flag",
	"unknown shorthand", "flag needs an argument", "invalid argument", "bad flag syntax", "no such flag", "strconv", "parsing \"",
	"invalid syntax", "value out of range", "required flag", "for \"hipq", "Error:", "pflag", "cobra",
}

func TestMistakes(t *testing.T) {
	dbtest.Long(t, "one command after the other")
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		h := mistaken(t, driver, source)
		for _, m := range mistakes {
			want := "hipq: " + m.says + "\n"
			if m.usage != "" {
				name, _, _ := strings.Cut(m.usage, " QUEUE")
				name, _, _ = strings.Cut(name, " [")
				line := m.usage + " [flags]"
				if m.usage == "COMMAND" || strings.HasSuffix(m.usage, " COMMAND") {
					name, line = strings.TrimSuffix(m.usage, "COMMAND"), m.usage
				}
				want += fmt.Sprintf("  usage: hipq %s; see %s --help\n", line, strings.TrimSpace("hipq "+name))
			}
			dbtest.Same(t, h.tell(t, 64, words(m.line)...), want, "hipq %s says", m.line)
		}
	})
}

// Every command reports mistakes in its flags and arguments in hipq's words.
func TestMistakesOfEachCommand(t *testing.T) {
	dbtest.Long(t, "one command after the other")
	h := mistaken(t, "sqlite", dbtest.SQLite(t))
	seen := 0
	each(cmd.Root(), func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		with := func(args ...string) []string { return append(append([]string{}, path...), args...) }
		seen++
		h.tell(t, 64, with("--nonsense")...)
		if len(path) > 0 && path[0] != "work" { // work takes any number of queues, and no other arguments
			h.tell(t, 64, with("1", "2", "a", "b", "c", "d", "e")...)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal == "" {
				h.tell(t, 64, with("--"+f.Name)...)
			}
			switch f.Value.Type() {
			case "int", "int64", "bool":
				h.tell(t, 64, with("--"+f.Name+"=x1")...)
				if f.Value.Type() != "bool" {
					h.tell(t, 64, with("--"+f.Name, "99999999999999999999")...)
				}
			}
		})
	})
	dbtest.Ensure(t, seen >= 20, "commands found: %d", seen)
}

// each calls f for a command and its subcommands.
func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			each(sub, f)
		}
	}
}

// hand types command lines.
type hand struct{ config string }

func mistaken(t *testing.T, driver, source string) hand {
	t.Helper()
	h := hand{filepath.Join(t.TempDir(), "hipq.yaml")}
	must(t, os.WriteFile(h.config, fmt.Appendf(nil, mistakenConfig, dbtest.Section(driver, source)), 0o600))
	t.Setenv("HIPQ_CONFIG", h.config)
	h.tell(t, 0, "init")
	return h
}

// tell runs a command that must end with this code. A failed command prints only its error, in hipq's words.
func (h hand) tell(t *testing.T, want int, args ...string) string {
	t.Helper()
	code, out, errs := shown(args...)
	dbtest.Ensure(t, code == want && (code == 0 || out == ""),
		"hipq %s: exit code %d, want %d, and it prints %s\n%s", strings.Join(args, " "), code, want, out, errs)
	for _, words := range foreign {
		dbtest.Ensure(t, !strings.Contains(errs, words), "hipq %s speaks a foreign language: %s", strings.Join(args, " "), errs)
	}
	return errs
}

// words splits a command line. Quotes only enclose an empty or a whole word.
func words(line string) []string {
	args := strings.Fields(line)
	for i := range args {
		args[i] = strings.Trim(args[i], "'")
	}
	return args
}
