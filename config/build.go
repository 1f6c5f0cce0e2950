package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // else hosts without zone files would read a config differently

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

type builder struct {
	*checker
	*shape
	shared bool // others may read the file
	seen   map[string]bool
	// deciders are the retry handlers, which job types may share.
	deciders map[*retryHandlerSection]*Handler
}

func (b builder) config() *Config {
	s := b.shape
	c := &Config{
		File:                 b.file,
		Name:                 s.Name,
		Tables:               s.Tables,
		Database:             b.database(s.Database),
		DSNFrom:              b.dsnFrom(s.Database),
		Location:             b.zone("timezone", s.Timezone),
		Worker:               s.Worker,
		ActivityKeep:         s.Activity.Keep,
		MetricsKeep:          s.Metrics.Keep,
		MonitorPing:          b.pingURL("monitor.ping_url", s.Monitor.PingURL),
		PurgePing:            b.pingURL("purge.ping_url", s.Purge.PingURL),
		Alert:                s.Alert,
		StrictTypes:          s.StrictTypes,
		AllowForeignHandlers: s.AllowForeign,
		Mail:                 s.Mail,
	}
	c.Worker.Grace = cmp.Or(c.Worker.Grace, worker.NoGrace)
	names := b.names(c)
	b.retryHandler("retry_handler", s.RetryHandler)
	if len(s.Queues) == 0 {
		b.missing("queues", "; a config needs at least one queue")
	}
	for i, section := range s.Queues {
		path := element("queues", i, section.Name)
		q := b.queue(path, section)
		queueAlert(section, &c.Alert)
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
	switch {
	case c.Name == "":
		b.missing("name", "; give the instance a name of lower case letters and underscores")
	case err != nil: // with the default template only the name can be at fault
		b.refuseName("name", c.Name, err)
		names, _ = schema.NewNames("instance", schema.DefaultTemplate)
	default:
		own, err := c.Names()
		if err == nil {
			return own
		}
		b.refuseName("tables", c.Tables, fmt.Errorf("%w; the default is %s", err, schema.DefaultTemplate))
	}
	return names
}

func (b builder) database(s databaseSection) schema.Options {
	o := schema.Options{Driver: s.Driver}
	if b.refused["database.driver"] {
		return o
	}
	if o.Driver == "sqlite" {
		o.Path, o.Mode = s.Path, b.mode("database.mode", s.Mode)
		given := map[string]bool{"database.dsn": s.DSN != "", "database.dsn_file": s.DSNFile != "", "database.nodes": len(s.Nodes) > 0}
		for _, key := range []string{"database.dsn", "database.dsn_file", "database.nodes", "database.tls"} {
			// If the driver comes from the environment, the file's dsn is unused. Otherwise its author expects it to be used.
			if given[key] && (b.origin["database.driver"] == "" || b.origin[key] != "") {
				b.refuse(key, "is for database.driver: mysql, but the driver is sqlite; set the driver or leave the key out")
			}
			b.forget(key)
		}
		return o
	}
	b.forget("database.path")
	b.forget("database.mode")
	o.DSN = b.dsn(s)
	if s.DSN == "" {
		o.DSNFile = s.DSNFile
	}
	b.nodes(s.Nodes)
	o.Nodes = s.Nodes
	if s.TLS != nil && *s.TLS != (schema.TLS{}) {
		o.TLS = s.TLS
	}
	if unverified := o.Unverified(); unverified != "" {
		b.warn("%s: see database.tls", unverified)
	}
	return o
}

func (b builder) nodes(nodes []string) {
	seen := map[string]bool{}
	for i, node := range nodes {
		at := fmt.Sprintf("database.nodes[%d]", i)
		if err := schema.CheckNode(node); err != nil {
			b.refuseName(at, node, fmt.Errorf("%.80q %w", node, err))
		} else if seen[node] {
			b.refuse(at, "%s is given twice", shown(node))
		}
		seen[node] = true
	}
}

func hasPassword(dsn string) bool {
	user := dsn[:max(0, strings.LastIndex(dsn, "@"))]
	return strings.Contains(user, ":")
}

// mode parses a file's permissions as chmod does.
func (b builder) mode(path, text string) fs.FileMode {
	n, err := strconv.ParseUint(text, 8, 9)
	if err != nil || n&0o600 != 0o600 || n&0o113 != 0 {
		b.refuse(path, "%s is not a mode for a database file; write 0600, 0640 or 0660", shown(text))
	}
	b.show(path, fmt.Sprintf("%04o", n), b.from[path])
	return fs.FileMode(n)
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
		return s.DSN
	case s.DSNFile == "":
		if !b.refused["database.dsn_file"] {
			b.missing("database.dsn", "; the driver mysql needs dsn, or dsn_file with a file that holds it, as user:password@tcp(host:3306)/database")
		}
		return ""
	}
	dsn, shared, err := readSecret(s.DSNFile)
	switch {
	case err != nil:
		b.refuse("database.dsn_file", "%w", err)
	case shared && hasPassword(dsn):
		b.warn("others may read %s, which has the database password: chmod 600", s.DSNFile)
	}
	b.show("database.dsn", schema.WithoutPassword(dsn), b.from["database.dsn_file"])
	return dsn
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

func (c *checker) worker(path string, o *worker.Options) {
	if need := 2*o.Grace + 5*time.Second; o.LockFor < need {
		c.refuse(path+".lock_for", "%s is too short for worker.grace %s: write at least %s (twice the grace plus 5s), because a worker "+
			"that can't renew its lock must stop its handlers before the lock expires",
			formatDuration(o.LockFor), formatDuration(o.Grace), formatDuration(need))
	}
}

func (c *checker) retry(path string, p *job.RetryPolicy) {
	if p.Backoff == job.Exponential && p.MaxDelay < p.Delay {
		c.refuse(path+".max_delay", "%s is shorter than the delay of %s; an exponential backoff grows up to max_delay, so it must be at least the delay",
			formatDuration(p.MaxDelay), formatDuration(p.Delay))
	}
}
