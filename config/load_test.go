package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/worker"
)

// workFlags are flags like a command's.
func workFlags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("work", pflag.ContinueOnError)
	flags.Int("concurrency", 77, "")
	flags.Int("batch", 77, "")
	flags.String("run-for", "77s", "")
	flags.Bool("linger", false, "")
	flags.Int("max-jobs", 77, "")
	do(t, flags.Parse(args))
	return flags
}

func TestPrecedence(t *testing.T) {
	const file = minimal + "worker: {concurrency: 2, batch: 2, run_for: 2s, linger: true}\n"
	env := environment("HIPQ_WORKER_CONCURRENCY", "3", "HIPQ_WORKER_BATCH", "3", "HIPQ_WORKER_RUN_FOR", "3s", "HIPQ_WORKER_LINGER", "true")
	defaults := worker.DefaultOptions
	want := func(concurrency, batch int, runFor time.Duration, linger bool, maxJobs int) worker.Options {
		o := defaults
		o.Concurrency, o.Batch, o.RunFor, o.Linger, o.MaxJobs = concurrency, batch, runFor, linger, maxJobs
		return o
	}
	for _, c := range []struct {
		name, file string
		env        []string
		flags      *pflag.FlagSet
		want       worker.Options
	}{
		{"default", minimal, noEnv, nil, defaults},
		{"flags that were not given", minimal, noEnv, workFlags(t), defaults},
		{"a command without such flags", file, noEnv, pflag.NewFlagSet("status", pflag.ContinueOnError), want(2, 2, 2*time.Second, true, 0)},
		{"file", file, noEnv, workFlags(t), want(2, 2, 2*time.Second, true, 0)},
		{"environment", file, env, workFlags(t), want(3, 3, 3*time.Second, true, 0)},
		{"environment without a file's section", minimal, env, nil, want(3, 3, 3*time.Second, true, 0)},
		{"environment over a section without content", minimal + "worker:\n", env, nil, want(3, 3, 3*time.Second, true, 0)},
		{"one flag", file, env, workFlags(t, "--batch", "4"), want(3, 4, 3*time.Second, true, 0)},
		{
			"all flags", file, env, workFlags(t, "--concurrency=4", "--batch=4", "--run-for=1m30s", "--linger=false", "--max-jobs=4"),
			want(4, 4, 90*time.Second, false, 4),
		},
		{"a flag over the default", minimal, noEnv, workFlags(t, "--linger", "--max-jobs=1"), want(4, 100, 55*time.Second, true, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := dbtest.Must(load(t, c.file, c.env, c.flags))(t)
			dbtest.Same(t, diff(c.want, got.Worker), "", "(-want +got)")
		})
	}
}

func TestDSN(t *testing.T) {
	dir := t.TempDir()
	secret := write(t, filepath.Join(dir, "dsn"), "u:s3cret@tcp(file)/x\r\n")
	const mysql, both = "database: {driver: mysql, dsn: 'u:s3cret@tcp(yaml)/x'}\n", "database: {driver: mysql, dsn: 'u:s3cret@tcp(yaml)/x', dsn_file: dsn}\n"
	for _, c := range []struct {
		name, database string
		env            []string
		want, refusal  string
	}{
		{"in the config", mysql, noEnv, "u:s3cret@tcp(yaml)/x", ""},
		{"in a file beside the config", "database: {driver: mysql, dsn_file: dsn}\n", noEnv, "u:s3cret@tcp(file)/x", ""},
		{"in a file elsewhere", "database: {driver: mysql, dsn_file: " + secret + "}\n", noEnv, "u:s3cret@tcp(file)/x", ""},
		{"from the environment", "database: {driver: mysql, dsn_file: none}\n", environment("HIPQ_DATABASE_DSN", "u:s3cret@tcp(env)/x"), "u:s3cret@tcp(env)/x", ""},
		{"a file from the environment", mysql, environment("HIPQ_DATABASE_DSN_FILE", "dsn"), "u:s3cret@tcp(file)/x", ""},
		{
			"from the environment, in the place of nodes too", "database: {driver: mysql, dsn_file: none, nodes: [db1, db2]}\n",
			environment("HIPQ_DATABASE_DSN", "u:s3cret@tcp(env)/x"), "u:s3cret@tcp(env)/x", "",
		},
		{"all from the environment", "", environment("HIPQ_DATABASE_DRIVER", "mysql", "HIPQ_DATABASE_DSN", "u:s3cret@tcp(env)/x"), "u:s3cret@tcp(env)/x", ""},
		{"resting", mysql, environment("HIPQ_DATABASE_DRIVER", "sqlite"), "", ""},
		{"twice", both, noEnv, "", "database.dsn: is given, and so is database.dsn_file; leave one of them out"},
		{
			"twice in the environment", "database: {driver: mysql}\n",
			environment("HIPQ_DATABASE_DSN", "u:s3cret@tcp(env)/x", "HIPQ_DATABASE_DSN_FILE", "dsn"),
			"", "database.dsn (HIPQ_DATABASE_DSN): is given, and so is database.dsn_file; leave one of them out",
		},
		{
			"for the wrong driver", "database: {driver: sqlite}\n", environment("HIPQ_DATABASE_DSN", "u:s3cret@tcp(env)/x"),
			"", "database.dsn (HIPQ_DATABASE_DSN): is for database.driver: mysql, but the driver is sqlite; set the driver or leave the key out",
		},
		{
			"a secret in place of a driver", "", environment("HIPQ_DATABASE_DRIVER", "u:s3cret@tcp(env)/x"),
			"", "database.driver (HIPQ_DATABASE_DRIVER): (a value not shown because it may hold a password) is not one of sqlite, mysql",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Load(LoadOptions{File: write(t, filepath.Join(dir, "hipq.yaml"), minimal+c.database), Env: c.env})
			switch {
			case c.refusal == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refusal == "" && (got.Database.DSN != c.want || got.Database.Nodes != nil):
				t.Errorf("got %q, want %q", got.Database.DSN, c.want)
			case c.refusal != "" && (err == nil || !strings.HasSuffix(lineNumber.ReplaceAllString(err.Error(), ":"), "hipq.yaml: "+c.refusal)):
				t.Errorf("got %v\nwant %s", err, c.refusal)
			case err != nil && strings.Contains(err.Error(), "s3cret"):
				t.Errorf("the message shows the secret: %v", err)
			}
		})
	}
}

// TestSecretIsNeverShown: whatever else is wrong with a config, no message shows the password in its DSN.
func TestSecretIsNeverShown(t *testing.T) {
	const dsn = "hipq:s3cret@tcp(127.0.0.1:3306)/shop"
	for _, text := range []string{
		"name: shop\ndatabase: {driver: mysql, dsn: " + dsn + "}\n",
		"name: Shop\ntimeout: 3\ndatabase: {driver: sqlite, dsn: '" + dsn + "'}\n" + "queues: [{name: Q}]\n",
		"name: shop\ndatabase:\n  driver: mysql\n   dsn: " + dsn + "\n",
		"name: shop\ndatabase:\n\tdsn: " + dsn + "\n",
		"name: shop\ndatabase:\n  dsn: !!int " + dsn + "\n",
		"name: shop\ndatabase:\n  dsn: [" + dsn + "]\n",
		"name: shop\ndatabase:\n  - " + dsn + "\n",
		"name: shop\ndatabase: {dsn: {a: '" + dsn + "'}}\n",
		"name: shop\ndatabase:\n  dns: " + dsn + "\n",
		"name: shop\ndatabase:\n  dsn: \"" + dsn + "\n",
		"name: " + dsn + "\n",
		"name: shop\ntables: " + dsn + "\n",
		"name: shop\ntables: " + dsn + "{queue}\n",
		"name: shop\nqueues: [{name: '" + dsn + "'}]\n",
		"name: shop\nqueues: [{name: q, throttle_limit: '" + dsn + "', job_types: [{name: \"\\a" + dsn + "\", time_windows: ['" + dsn + "']}]}]\n",
		"timezone: " + dsn + "\n",
		"worker: {batch: '" + dsn + "', run_for: '" + dsn + "', linger: '" + dsn + "'}\n",
		dsn,
		"- " + dsn,
	} {
		_, err := load(t, text, noEnv, nil)
		dbtest.Ensure(t, err != nil && !strings.Contains(err.Error(), "s3cret"), "%s: %v", text, err)
	}
}

// TestBrokenEnvironment: an environment may hold anything that execve accepts: entries without = are ignored, and
// invalid names are not shown, because they may contain the value.
func TestBrokenEnvironment(t *testing.T) {
	for entry, want := range map[string]string{
		"HIPQ_WORKER_BATCH":                  "",
		"HIPQ_DATABASE_DSN hipq:s3cret@db/x": "",
		"s3cret":                             "",
		"=s3cret":                            "",
		"":                                   "",
		"HIPQ_DATABASE_DSN:hipq:s3cret@tcp(db)/shop?tls=true": "HIPQ_DATABASE_DSN…: unknown variable",
		"HIPQ_DATABASE_DSN hipq:s3cret@tcp(db)/shop?tls=true": "HIPQ_DATABASE_DSN…: unknown variable",
		"HIPQ_WORKER_\x1b[2Js3cret=1":                         "HIPQ_WORKER_…: unknown variable",
		"HIPQ_WORKER_" + strings.Repeat("X", 70) + "s3cret=1": "HIPQ_WORKER_" + strings.Repeat("X", 52) + "…: unknown variable",
	} {
		_, err := load(t, minimal, []string{entry}, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), ": "+want)) || err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

// TestUnknownVariables: variables that are meant for hipq but have no effect are refused; those of other programs and of handlers are
// not, nor those by which Kubernetes describes a service hipq-database. A port meant as a setting is.
func TestUnknownVariables(t *testing.T) {
	const ofDatabase = "the variables are HIPQ_DATABASE_DRIVER, HIPQ_DATABASE_PATH, HIPQ_DATABASE_MODE, HIPQ_DATABASE_DSN, HIPQ_DATABASE_DSN_FILE, " +
		"HIPQ_DATABASE_TLS_CA, HIPQ_DATABASE_TLS_CERT, HIPQ_DATABASE_TLS_KEY, HIPQ_DATABASE_TLS_SERVER_NAME"
	_, err := load(t, minimal, environment("HIPQ_DATABASE_PORT", "tcp://10.0.0.7:3306"), nil)
	do(t, err)
	for name, want := range map[string]string{
		"HIPQ_WORKER_CONCURENCY":           "did you mean HIPQ_WORKER_CONCURRENCY?",
		"HIPQ_WROKER_CONCURRENCY":          "did you mean HIPQ_WORKER_CONCURRENCY?",
		"HIPQ_DATABSE_DSN":                 "did you mean HIPQ_DATABASE_DSN?",
		"HIPQ_Name":                        "did you mean HIPQ_NAME?",
		"HIPQ_TABEL":                       "",
		"HIPQ_TABLE":                       "did you mean HIPQ_TABLES?",
		"HIPQ_CONFIGS":                     "did you mean HIPQ_CONFIG?",
		"HIPQ_ACTIVITY_MONTHS":             "the variables are HIPQ_ACTIVITY_KEEP",
		"HIPQ_WORKER":                      "the variables are HIPQ_WORKER_CONCURRENCY, HIPQ_WORKER_BATCH, HIPQ_WORKER_RUN_FOR, HIPQ_WORKER_LINGER, HIPQ_WORKER_POLL, HIPQ_WORKER_LOCK_FOR, HIPQ_WORKER_GRACE",
		"HIPQ_TIMEOUT":                     "timeout can only be set in the file",
		"HIPQ_RETRY_DELAY":                 "retry can only be set in the file",
		"HIPQ_STRICT_TYPES":                "strict_types can only be set in the file",
		"HIPQ_DATABASE_PORT":               ofDatabase,
		"HIPQ_WORKER_ID":                   "",
		"HIPQ_JOB_KEY":                     "",
		"HIPQ_QUEUE":                       "",
		"HIPQ_TOKEN":                       "",
		"HIPQ_JOB_KEYS":                    "",
		"HIPQ_JOB_DATA":                    "",
		"HIPQ_ATTEMPTS":                    "",
		"HIPQ_QUEUES":                      "",
		"HIPQ_HOME":                        "",
		"HIPQ_OWN":                         "",
		"HIPQ_TEST_MYSQL_DSN":              "",
		"HIPQ_DATABASE_SERVICE_HOST":       "",
		"HIPQ_DATABASE_SERVICE_PORT_MYSQL": "",
		"HIPQ_DATABASE_PORT_3306_TCP":      "",
		"HIPQ_DATABASE_PORT_3306_TCP_ADDR": "",
		"hipq_worker_batches":              "",
		"WORKER_CONCURENCY":                "",
	} {
		_, err := load(t, minimal, environment(name, "s3cret"), nil)
		if want != "" {
			want = "invalid configuration: " + name + ": unknown variable; " + want
		}
		dbtest.Ensure(t, (want != "" || err == nil) && (want == "" || errors.Is(err, ErrInvalid) && err.Error() == want),
			"%s:\n got %v\nwant %s", name, err, want)
		_, err = load(t, minimal, environment(name, ""), nil)
		dbtest.Ensure(t, err == nil, "%s, empty: %v", name, err)
	}
	_, err = Load(LoadOptions{Dir: t.TempDir(), Env: environment("HIPQ_CONFG", "/etc/hipq.yaml")})
	dbtest.Ensure(t, errors.Is(err, ErrNotFound) && len(Mistakes(err)) == 2 && Mistakes(err)[0].Key == "HIPQ_CONFG",
		"where no config was found: %v", err)
}
