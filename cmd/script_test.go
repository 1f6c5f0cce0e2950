package cmd_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"github.com/hipq/hipq/cmd"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
)

// TestMain provides programs of this test binary that scripts call by name. Each call is a process, so that hipq finds
// its own file, can be killed, and still counts for the coverage.
func TestMain(m *testing.M) {
	if len(os.Args) > 0 && strings.HasSuffix(filepath.Base(os.Args[0]), ".test") && signal.Ignored(syscall.SIGHUP) {
		// nohup ignores SIGHUP. The tests' processes would inherit that, and tests send them SIGHUP.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	testscript.Main(clean{m}, map[string]func(){
		"hipq":         func() { os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"hold":         func() { program(hold) },
		"sql":          func() { program(runSQL) },
		"terminal":     func() { program(onTerminal) },
		"tab":          func() { program(pressTab) },
		"unprivileged": func() { program(unprivileged) },
	})
}

// succeeds runs a program that must do its work, and returns its output. about says where the test has it from.
func succeeds(t *testing.T, c *exec.Cmd, about ...any) string {
	t.Helper()
	out, err := c.CombinedOutput()
	dbtest.Require(t, err == nil, "%v %q: %v\n%s", about, c.Args, err, out)
	return string(out)
}

// clean runs the tests with a temporary cache, because hipq must not note databases in the user's.
type clean struct{ *testing.M }

// Run implements testscript.TestingM.
func (c clean) Run() int {
	own, err := os.UserCacheDir()
	if err == nil && os.Getenv("GOCACHE") == "" { // keep go's cache, because tests build hipq
		err = os.Setenv("GOCACHE", filepath.Join(own, "go-build"))
	}
	cache := ""
	if err == nil {
		cache, err = os.MkdirTemp("", "hipq-cache-")
	}
	if err == nil {
		err = os.Setenv("XDG_CACHE_HOME", cache)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(cache) }()
	return c.M.Run()
}

func program(run func(args []string) error) {
	err := run(os.Args[1:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
}

// TestScripts runs each script of testdata/script twice, each time with a new database. Besides the commands of
// testscript, scripts have:
//
//	hipq …                  the command itself; success is exit 0
//	exits CODE PROGRAM …    runs a program that must exit with this code; with 64 to 78 it must say why on standard
//	                        error, and print nothing else
//	sql STATEMENT…          runs statements on the script's database and prints their rows, separated by tabs; @FILE
//	                        reads statements, each of which ends with a semicolon and a line end, or after the line
//	                        DELIMITER // with two slashes
//	terminal PROGRAM …      runs a program with a terminal as its standard output, and prints the screen; a first
//	                        argument --columns=N sets the width, --stderr makes it standard error too
//	tab SHELL LINE          types a line into a shell (bash, zsh, fish) with hipq's completion, completes the last
//	                        word, and prints the line, each word on a line; if there are several offers,
//	                        all of them
//	unprivileged PROGRAM …  runs a program to which file permissions apply even if the tests run as root, and which
//	                        may not signal other users' processes
//	hold FILE HELD          delays opening and executing a file until standard input ends, at most 45 s; HELD exists
//	                        from the start until a process tries
//	shape FILE WANT         checks that each JSON object in FILE has the fields and types that WANT lists
//	hour NAME N             sets NAME to the hour that began N hours before this one, and NAME_SQL to a time in it
//
// With -short, as under the race detector, only scripts about concurrency and signals run: those that begin with the
// line raceToo.
//
// In a script's YAML files, $DATABASE is replaced by the section of the script's database, which DRIVER and SOURCE also
// name. Conditions are [sqlite], [mysql], [galera] for a cluster, and [root] if the tests run as root.
func TestScripts(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"sqlite", "mysql"} {
		t.Run(driver, func(t *testing.T) {
			dbtest.SkipIf(t, testing.Short() && driver == "sqlite", "the commands are the same")
			testscript.Run(t, testscript.Params{
				Files:              scripts(t),
				RequireUniqueNames: true,
				Setup:              func(env *testscript.Env) error { return setUp(env, driver) },
				Condition:          func(name string) (bool, error) { return condition(name, driver) },
				Cmds:               map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "shape": shape, "hour": hour, "soon": soon},
			})
		})
	}
}

// raceToo is the first line of the scripts that run with -short too.
const raceToo = "# Under the race detector too.\n"

// scripts returns the files of the scripts to run.
func scripts(t *testing.T) []string {
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || !testing.Short() {
		return files
	}
	return slices.DeleteFunc(files, func(file string) bool {
		text := dbtest.Must(os.ReadFile(file))(t)
		return !strings.HasPrefix(string(text), raceToo)
	})
}

func setUp(env *testscript.Env, driver string) error {
	section, source := dbtest.Section(driver, "hipq.db"), filepath.Join(env.WorkDir, "hipq.db")
	if driver == "mysql" {
		source = dbtest.MySQL(env.T().(testing.TB))
		section = dbtest.Section(driver, source)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("LANG", "C.UTF-8")
	env.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")) // else each process takes 1 s longer
	env.Setenv("GOGC", "400")                                                         // most end before a collection pays
	if driver == "mysql" && !testing.Short() {
		// With one processor these scripts, which mostly wait for the server, take a tenth less CPU time. On SQLite,
		// and under the race detector, they use all processors.
		env.Setenv("GOMAXPROCS", "1")
	}
	env.Setenv("ROOT", root)
	env.Setenv("DRIVER", driver)
	env.Setenv("SOURCE", source)
	env.Setenv("DATABASE", section)
	return filepath.WalkDir(env.WorkDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "$DATABASE", section)), 0o600)
	})
}

func condition(name, driver string) (bool, error) {
	if name == "sqlite" || name == "mysql" {
		return name == driver, nil
	}
	if name == "galera" {
		return driver == "mysql" && os.Getenv("HIPQ_TEST_GALERA_DSNS") != "", nil
	}
	if name == "root" {
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// exits is the command exits.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM …")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	if want < 64 || want > 78 {
		return
	}
	why := ts.ReadFile("stderr")
	if ts.ReadFile("stdout") != "" || !strings.HasPrefix(why, "hipq: ") && !strings.HasPrefix(why, `{"error":{"code":`+strconv.Itoa(want)+`,"message":"`) {
		ts.Fatalf("what is refused has to say why on standard error, and nothing else")
	}
}

// soon is the command soon: it sets a variable to half an hour from now, in the tables' format.
func soon(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: soon NAME")
	}
	ts.Setenv(args[0], time.Now().UTC().Add(30*time.Minute).Format("2006-01-02 15:04:05.000000"))
}

// hour is the command hour.
func hour(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hour NAME N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	t := time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(n) * time.Hour)
	ts.Setenv(args[0], t.Format(time.RFC3339))
	ts.Setenv(args[0]+"_SQL", t.Format("2006-01-02 15")+":30:00.000000")
}

// runSQL is the program sql.
func runSQL(statements []string) error {
	driver, source := os.Getenv("DRIVER"), os.Getenv("SOURCE")
	if driver == "sqlite" {
		source = "file:" + source + "?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // later statements need the session settings of earlier ones
	for _, s := range statements {
		list := []string{s}
		if file, ok := strings.CutPrefix(s, "@"); ok {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			tables, procedures, _ := strings.Cut(strings.TrimSpace(string(text)), "\nDELIMITER //\n")
			list = strings.SplitAfter(strings.TrimSpace(tables), ";\n")
			if procedures != "" {
				list = append(list, strings.Split(strings.TrimSuffix(procedures, "//\n\nDELIMITER ;"), "//\n")...)
			}
		}
		for _, s := range list {
			if err := printRows(db, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func printRows(db *sql.DB, statement string) error {
	rows, err := dbtest.Rows(context.Background(), db, statement)
	for _, row := range rows {
		fmt.Println(strings.Join(texts.Map(row, func(cell sql.NullString) string {
			return map[bool]string{true: cell.String, false: "NULL"}[cell.Valid]
		}), "\t"))
	}
	return err
}
