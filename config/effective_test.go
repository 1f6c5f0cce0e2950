package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/hipq/hipq/internal/dbtest"
)

// explain returns the settings of a config with that text, by key. FILE replaces its path, and DIR its folder's.
func explain(t *testing.T, text string, env []string, flags *pflag.FlagSet) map[string]string {
	t.Helper()
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "hipq.yaml"), text)
	all := dbtest.Must(Explain(LoadOptions{File: file, Env: env, Flags: flags}))(t)
	by := map[string]string{}
	for _, s := range all {
		_, ok := by[s.Key]
		dbtest.Ensure(t, !ok, "%s is there twice", s.Key)
		line := strings.NewReplacer(file, "FILE", dir, "DIR").Replace(fmt.Sprintf("%v, %s", s.Value, s.From))
		by[s.Key] = line
		dbtest.Ensure(t, !strings.Contains(line, "s3cret"), "%s shows a secret: %s", s.Key, line)
	}
	return by
}

func TestExplain(t *testing.T) {
	got := explain(t, `name: shop
database: {driver: mysql,
  dsn: "hipq:s3cret@tcp(db:3306)/shop?readTimeout=90s"}
worker: {concurrency: 2, batch: 3, linger: yes}
timeout: 1h
retry_handler: {exec: [decide], env: [TOKEN=s3cret, HOME], user: ask, limits: {memory: 2048MiB, cpu: 90s}}
queues:
  - name: emails
    retry: {delay: 90s}
    default_priority: 7
    rate: 100/1m
    throttle_groups: {by: job_type, limits: {"*": 10}}
    job_types:
      - &send
        name: send
        handler: {exec: [curl, 'https://u:s3cret@example.org'], dir: sub, umask: 27, dash_arguments: on}
        timeout: 5m
        time_windows: ["09:00-17:00"]
      - {<<: *send, name: resend, priority: 1}
      - name: print
        alert: {failed: {critical: off}}
monitor: {ping_url: "https://user:s3cret@hc-ping.com:443/s3cret"}
alert: {failed: {warning: 7}, run_p95: {critical: 90s}}
`, environment("HIPQ_WORKER_BATCH", "4", "HIPQ_WORKER_CONCURRENCY", "4"), workFlags(t, "--batch=5", "--run-for=65s"))
	for key, want := range map[string]string{
		"name":                                                "shop, FILE:1",
		"tables":                                              "{instance}_{queue}, default",
		"database.driver":                                     "mysql, FILE:2",
		"database.dsn":                                        "hipq:***@tcp(db:3306)/shop?readTimeout=***, FILE:3",
		"database.dsn_file":                                   "<nil>, default",
		"database.tls":                                        "<nil>, default",
		"database.path":                                       "",
		"timezone":                                            "UTC, default",
		"worker.concurrency":                                  "4, HIPQ_WORKER_CONCURRENCY",
		"worker.batch":                                        "5, --batch",
		"worker.run_for":                                      "65s, --run-for",
		"worker.linger":                                       "true, FILE:4",
		"worker.lock_for":                                     "1m, default",
		"strict_types":                                        "false, default",
		"default_priority":                                    "100, default",
		"queues.emails.timeout":                               "1h, FILE:5",
		"queues.emails.retry.delay":                           "90s, FILE:9",
		"queues.emails.retry.attempts":                        "3, default",
		"queues.emails.rate":                                  "100/1m, FILE:11",
		"queues.emails.throttle_groups.limits":                "map[*:10], FILE:12",
		"queues.emails.throttle_limit":                        "0, default",
		"queues.emails.concurrency":                           "<nil>, default",
		"queues.emails.job_types.send.timeout":                "5m, FILE:17",
		"queues.emails.job_types.send.priority":               "7, FILE:10",
		"queues.emails.job_types.send.retry.delay":            "90s, FILE:9",
		"queues.emails.job_types.send.handler.exec":           "[curl ***], FILE:16",
		"queues.emails.job_types.send.handler.dir":            "DIR/sub, FILE:16",
		"queues.emails.job_types.send.handler.env":            "<nil>, default",
		"queues.emails.job_types.send.handler.umask":          "0027, FILE:16",
		"queues.emails.job_types.send.handler.dash_arguments": "true, FILE:16",
		"queues.emails.job_types.send.handler.user":           "<nil>, default",
		"queues.emails.job_types.send.handler.limits.memory":  "<nil>, default",
		"queues.emails.job_types.send.retry_handler.exec":     "[decide], FILE:6",
		"queues.emails.job_types.send.retry_handler.user":     "ask, FILE:6",
		"retry_handler.limits.memory":                         "2GiB, FILE:6",
		"retry_handler.limits.cpu":                            "90s, FILE:6",
		"retry_handler.nice":                                  "0, default",
		"queues.emails.job_types.send.retry_handler.env":      "[TOKEN=*** HOME], FILE:6",
		"queues.emails.job_types.send.retry_handler.dir":      "DIR, default",
		"queues.emails.job_types.send.time_windows":           "[09:00-17:00], FILE:18",
		"queues.emails.job_types.resend.timeout":              "5m, FILE:17",
		"queues.emails.job_types.resend.priority":             "1, FILE:19",
		"queues.emails.job_types.print.handler":               "<nil>, default",
		"queues.emails.job_types.print.retry_handler":         "",
		"queues.emails.job_types.print.timeout":               "1h, FILE:5",
		"queues.emails.job_types.print.alert.failed.critical": "off, FILE:21",
		"queues.emails.job_types.print.alert.failed.warning":  "7, FILE:23",
		"queues.emails.job_types.print.alert.backlog.warning": "10000, default",
		"queues.emails.alert.run_p95.critical":                "90s, FILE:23",
		"alert.error_rate.warning":                            "0.05, default",
		"alert.run_p95.warning":                               "off, default",
		"monitor.ping_url":                                    "https://hc-ping.com:443/***, FILE:22",
		"purge.ping_url":                                      "<nil>, default",
	} {
		dbtest.Ensure(t, got[key] == want, "%s: %q, want %q", key, got[key], want)
	}
}

func TestExplainDSNFile(t *testing.T) {
	secret := write(t, filepath.Join(t.TempDir(), "dsn"), "u:s3:@cret@tcp(file)/x\n")
	got := explain(t, minimal+"database: {driver: mysql, dsn_file: "+secret+", tls: {ca: ca.pem}}\n", noEnv, nil)
	for key, want := range map[string]string{
		"database.dsn":             "u:***@tcp(file:3306)/x, FILE:3",
		"database.dsn_file":        secret + ", FILE:3",
		"database.tls.ca":          "DIR/ca.pem, FILE:3",
		"database.tls.key":         "<nil>, default",
		"database.tls.server_name": "<nil>, default",
	} {
		dbtest.Ensure(t, got[key] == want, "%s: %q, want %q", key, got[key], want)
	}
}
