package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // else hosts without zone files would read a config differently

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// maxInt is the maximum of the databases' columns.
const maxInt = math.MaxInt32

// defaults are the inherited settings of a job type.
type defaults struct {
	job.Type
	retryHandler *Handler
	strictTypes  bool
}

type builder struct {
	*checker
	// dir is the config file's folder, for relative paths.
	dir    string
	shared bool // others may read the file
	// slots is how many jobs the worker runs at once.
	slots int
	seen  map[string]bool
}

func (b builder) config(s *shape) *Config {
	c := &Config{
		File:         b.file,
		Name:         b.text("name", s.Name, ""),
		Tables:       b.text("tables", s.Tables, schema.DefaultTemplate),
		Database:     b.database(s.Database),
		DSNFrom:      b.dsnFrom(s.Database),
		Location:     b.zone("timezone", b.text("timezone", s.Timezone, "UTC")),
		Worker:       b.worker(s.Worker),
		ActivityKeep: b.seconds("activity.keep", s.Activity.Keep, 14*day, 0),
		MetricsKeep:  b.seconds("metrics.keep", s.Metrics.Keep, 2*365*day, 2*week),
		MonitorPing:  b.pingURL("monitor.ping_url", s.Monitor.PingURL),
		PurgePing:    b.pingURL("purge.ping_url", s.Purge.PingURL),
	}
	b.slots = c.Worker.Concurrency
	names := b.names(c)
	// the instance's settings are the defaults of each job type
	outer := defaults{Type: job.DefaultType("")}
	outer.Timeout = b.timeout("timeout", s.Timeout, outer.Timeout)
	outer.Retry = b.retry("retry", s.Retry, outer.Retry)
	outer.retryHandler = b.retryHandler("retry_handler", s.RetryHandler, nil)
	outer.Priority = b.integer("default_priority", s.DefaultPriority, outer.Priority, -maxInt, maxInt)
	outer.strictTypes = b.truth("strict_types", s.StrictTypes, false)
	c.StrictTypes = outer.strictTypes
	c.AllowForeignHandlers = b.truth("allow_foreign_handlers", s.AllowForeign, false)
	c.Alert = b.alert(s.Alert)
	c.Mail = b.truth("mail", s.Mail, true)
	if len(s.Queues) == 0 {
		b.missing("queues", "; a config needs at least one queue")
	}
	for i, section := range s.Queues {
		path := element("queues", i, section.Name)
		q := b.queue(path, section, outer)
		b.queueAlert(path, section, &c.Alert)
		q.Location = c.Location
		b.ownName("queues", i, "queue", section.Name, func(name string) error {
			_, err := names.CheckQueue(name)
			return err
		})
		c.Queues = append(c.Queues, q)
	}
	for i, section := range s.Schedules {
		c.Schedules = append(c.Schedules, b.schedule(i, section, c))
	}
	for _, p := range b.programs {
		p.Grace, p.AllowForeign, p.ConfigFile = c.Worker.Grace, c.AllowForeignHandlers, c.File
	}
	c.Warnings = b.warnings
	return c
}

// names checks the name and the template. If they are invalid, it returns names that still allow checking the queues.
func (b builder) names(c *Config) schema.Names {
	names, err := schema.NewNames(cmp.Or(c.Name, "instance"), schema.DefaultTemplate)
	if c.Name == "" {
		b.missing("name", "; give the instance a name of lower case letters and underscores")
		return names
	}
	if err != nil { // with the default template only the name can be at fault
		b.refuseName("name", c.Name, err)
		names, _ = schema.NewNames("instance", schema.DefaultTemplate)
		return names
	}
	own, err := c.Names()
	if err != nil {
		b.refuseName("tables", c.Tables, fmt.Errorf("%w; the default is %s", err, schema.DefaultTemplate))
		return names
	}
	return own
}

func (b builder) database(s databaseSection) schema.Options {
	o := schema.Options{Driver: b.text("database.driver", s.Driver, "sqlite")}
	switch o.Driver {
	case "sqlite":
		// If the driver comes from the environment, the file's dsn is unused. Otherwise its author expects it to be used.
		given, key := s.DSN, "database.dsn"
		if given == "" {
			given, key = s.DSNFile, "database.dsn_file"
		}
		if given != "" && (b.origin["database.driver"] == "" || b.origin[key] != "") {
			b.refuse(key, "is for database.driver: mysql, but the driver is sqlite; set the driver or leave the key out")
		}
		if len(s.Nodes) > 0 && b.origin["database.driver"] == "" {
			b.refuse("database.nodes", "are for database.driver: mysql, but the driver is sqlite; set the driver or leave the key out")
		}
		o.Path = b.absolute(cmp.Or(s.Path, "hipq.db"))
		b.note("database.path", o.Path, s.Path)
		o.Mode = b.mode("database.mode", s.Mode)
	case "mysql":
		o.DSN = b.dsn(s)
		if s.DSN == "" && s.DSNFile != "" {
			o.DSNFile = b.absolute(s.DSNFile)
		}
		o.Nodes = b.nodes(s)
		o.TLS = b.tls(s.TLS)
		if unverified := o.Unverified(); unverified != "" {
			b.warn("%s: see database.tls", unverified)
		}
	default:
		b.refuse("database.driver", "%s is not a driver (sqlite or mysql)", shown(o.Driver))
	}
	return o
}

func (b builder) nodes(s databaseSection) []string {
	seen := map[string]bool{}
	for i, node := range s.Nodes {
		at := fmt.Sprintf("database.nodes[%d]", i)
		if err := schema.CheckNode(node); err != nil {
			b.refuseName(at, node, fmt.Errorf("%.80q %w", node, err))
		} else if seen[node] {
			b.refuse(at, "%s is given twice", shown(node))
		}
		seen[node] = true
	}
	b.noteList("database.nodes", s.Nodes)
	return s.Nodes
}

func hasPassword(dsn string) bool {
	user := dsn[:max(0, strings.LastIndex(dsn, "@"))]
	return strings.Contains(user, ":")
}

// mode parses a file's permissions as chmod does.
func (b builder) mode(path, text string) fs.FileMode {
	n, err := strconv.ParseUint(cmp.Or(text, "0600"), 8, 9)
	if err != nil || n&0o600 != 0o600 || n&0o113 != 0 {
		b.refuse(path, "%s is not a mode for a database file; write 0600, 0640 or 0660", shown(text))
	}
	b.note(path, fmt.Sprintf("%04o", n), text)
	return fs.FileMode(n)
}

// tls returns the TLS options; nil leaves TLS to the DSN.
func (b builder) tls(s *tlsSection) *schema.TLS {
	if s == nil || *s == (tlsSection{}) {
		b.note("database.tls", nil, "")
		return nil
	}
	return &schema.TLS{
		CA: b.filePath("database.tls.ca", s.CA), Cert: b.filePath("database.tls.cert", s.Cert), Key: b.filePath("database.tls.key", s.Key),
		ServerName: b.text("database.tls.server_name", s.ServerName, ""),
	}
}

// dsnFrom is the setting that gives the DSN.
func (b builder) dsnFrom(s databaseSection) string {
	key := ""
	switch {
	case s.DSN != "":
		key = "database.dsn"
	case s.DSNFile != "":
		key = "database.dsn_file"
	}
	return cmp.Or(b.origin[key], key)
}

// dsn reads the DSN. No error shows it.
func (b builder) dsn(s databaseSection) string {
	switch {
	case s.DSN != "" && s.DSNFile != "":
		b.refuse("database.dsn", "is given, and so is database.dsn_file; leave one of them out")
		return ""
	case s.DSN != "":
		if b.shared && b.origin["database.dsn"] == "" && hasPassword(s.DSN) {
			b.warn("others may read %s, which has the database password: chmod 600, or put the DSN into database.dsn_file", b.file)
		}
		b.noteDSN(s.DSN, s)
		return s.DSN
	case s.DSNFile == "":
		if !b.refused["database.dsn_file"] {
			b.missing("database.dsn", "; the driver mysql needs dsn, or dsn_file with a file that holds it, as user:password@tcp(host:3306)/database")
		}
		return ""
	}
	file := b.absolute(s.DSNFile)
	dsn, shared, err := readSecret(file)
	switch {
	case err != nil:
		b.refuse("database.dsn_file", "%w", err)
	case shared && hasPassword(dsn):
		b.warn("others may read %s, which has the database password: chmod 600", file)
	}
	b.noteDSN(dsn, s)
	return dsn
}

// noteDSN records the DSN without its password, and its file if any.
func (b builder) noteDSN(dsn string, s databaseSection) {
	if b.filePath("database.dsn_file", s.DSNFile) != "" {
		b.outer["database.dsn"] = "database.dsn_file"
	}
	b.note("database.dsn", openText(schema.WithoutPassword(dsn)), s.DSN)
}

func (b builder) zone(path, name string) *time.Location {
	// "Local" would be a different zone on each host
	if name != "Local" {
		if l, err := time.LoadLocation(name); err == nil {
			return l
		}
	}
	b.refuse(path, "%s is not a time zone; write its name, such as UTC or Europe/Berlin", shown(name))
	return time.UTC
}

func (b builder) worker(s workerSection) worker.Options {
	before := len(b.errs)
	o := worker.DefaultOptions
	o.Concurrency = b.integer("worker.concurrency", s.Concurrency, o.Concurrency, 1, 10000)
	o.Batch = b.integer("worker.batch", s.Batch, o.Batch, 1, 10000)
	o.RunFor = b.duration("worker.run_for", s.RunFor, o.RunFor, time.Second)
	o.Linger = b.truth("worker.linger", s.Linger, o.Linger)
	o.Poll = b.duration("worker.poll", s.Poll, o.Poll, 50*time.Millisecond)
	o.LockFor = b.duration("worker.lock_for", s.LockFor, o.LockFor, time.Second)
	o.Grace = b.duration("worker.grace", s.Grace, o.Grace, 0)
	if need := 2*o.Grace + 5*time.Second; o.LockFor < need && len(b.errs) == before && !b.unsure["worker"] {
		b.refuse("worker.lock_for", "%s is too short for worker.grace %s: write at least %s (twice the grace plus 5s), because a worker "+
			"that can't renew its lock must stop its handlers before the lock expires",
			formatDuration(o.LockFor), formatDuration(o.Grace), formatDuration(need))
	}
	if o.Grace == 0 {
		o.Grace = worker.NoGrace
	}
	return o
}

func (b builder) timeout(path, text string, outer time.Duration) time.Duration {
	return b.seconds(path, text, outer, time.Second)
}

// retry overrides the outer level's policy, key by key.
func (b builder) retry(path string, s retrySection, outer job.RetryPolicy) job.RetryPolicy {
	before, p := len(b.errs), outer
	p.Attempts = b.integer(path+".attempts", s.Attempts, p.Attempts, 1, maxInt)
	p.Delay = b.duration(path+".delay", s.Delay, p.Delay, 0)
	p.Backoff = job.Backoff(b.text(path+".backoff", s.Backoff, string(p.Backoff)))
	p.MaxDelay = b.duration(path+".max_delay", s.MaxDelay, p.MaxDelay, 0)
	p.Jitter = b.fraction(path+".jitter", s.Jitter, p.Jitter)
	if p.Backoff != job.Fixed && p.Backoff != job.Exponential {
		b.refuse(path+".backoff", "%s is not a backoff (%s or %s)", shown(s.Backoff), job.Fixed, job.Exponential)
	}
	if p == outer || len(b.errs) > before {
		return p
	}
	if p.Backoff == job.Exponential && p.MaxDelay < p.Delay {
		b.refuse(path+".max_delay", "%s is shorter than the delay of %s; an exponential backoff grows up to max_delay, so it must be at least the delay",
			formatDuration(p.MaxDelay), formatDuration(p.Delay))
	}
	return p
}

func (b builder) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(b.dir, path)
}
