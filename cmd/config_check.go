package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/admin"
)

const configCheckLong = `Looks for what is wrong with the configuration, and names all of it: what every command refuses when it reads the config
(unknown keys and variables, values that can't be, time windows, the time zone, a dsn_file that can't be read), and also
the files of database.tls, and the programs of handlers and retry handlers: that they are there and may be executed, and
that a script's first line (#!) names an interpreter which is there. It warns of a script that an interpreter seems to be
given and that isn't there, as in [php, send.php], and of secrets of http handlers in files that others may read.

Programs are looked for as hipq work does it: by this PATH, from the handler's folder, as this user. cron's PATH is often
a shorter one: PATH=/usr/bin:/bin hipq config check.

The database isn't asked, so that a config can be checked where there is none; with --database it must also be reachable,
and initialised for all queues, and these divided into shards as the config says. What is wrong around the config, with
this host, its crontab, the database's settings, is found by hipq doctor.

Exit codes: 0 nothing is wrong · 64 usage · 75 nothing is wrong with the configuration, but the database is unreachable or
busy · 78 something is wrong.`

func (a *app) configCheckCommand() *cobra.Command {
	var database bool
	c := &cobra.Command{
		Use:        "check",
		Short:      "Look for what is wrong with the configuration, and with handlers' programs",
		Long:       configCheckLong,
		Example:    "  hipq config check --config /etc/hipq/hipq.yaml\n  hipq config check --database",
		SuggestFor: []string{"validate", "lint", "test", "verify"},
		RunE:       func(cmd *cobra.Command, _ []string) error { return a.runConfigCheck(cmd, database) },
	}
	c.Flags().BoolVar(&database, "database", false, "ask the database too: whether it can be reached, and is initialised")
	return c
}

// checked is what config check has looked at, and found.
type checked struct {
	// File is null if no config was found, or none that can be read.
	File          *string `json:"file"`
	Queues        int     `json:"queues"`
	JobTypes      int     `json:"job_types"`
	Handlers      int     `json:"handlers"`
	RetryHandlers int     `json:"retry_handlers"`
	// Database says that it was asked.
	Database bool      `json:"database"`
	Findings []finding `json:"findings"`
	Warnings []string  `json:"warnings"`
}

// finding is one thing that is wrong: at which key, from which variable if the file didn't give it, and what.
type finding struct {
	Key     *string `json:"key"`
	From    *string `json:"from"`
	Message string  `json:"message"`
}

func (a *app) runConfigCheck(cmd *cobra.Command, database bool) error {
	done := checked{Findings: []finding{}, Warnings: []string{}}
	c, err := config.Inspect(a.loadOptions(cmd))
	if c != nil {
		readable := err == nil
		c.Database.Warn = a.warn
		err = errors.Join(err, done.programs(c))
		done.File, done.Warnings = &c.File, append(done.Warnings, c.Warnings...)
		if readable {
			err = errors.Join(err, done.connection(cmd, c, database))
		}
	}
	if a.json {
		for _, m := range config.Mistakes(err) {
			done.Findings = append(done.Findings, finding{texts.Nullable(m.Key == "", m.Key), texts.Nullable(m.From == "", m.From), m.Err.Error()})
		}
		return errors.Join(err, a.printJSON(done))
	}
	for _, warning := range done.Warnings {
		a.warn(errors.New(warning))
	}
	if err != nil {
		return err
	}
	said := "not asked (--database)"
	if done.Database {
		said = "initialised"
	}
	a.out.line("%s is fine (queues: %d, job types: %d, handlers: %d, retry handlers: %d, database: %s)",
		c.File, done.Queues, done.JobTypes, done.Handlers, done.RetryHandlers, said)
	return nil
}

// programs looks for what handlers run.
func (d *checked) programs(c *config.Config) error {
	var errs []error
	seen := map[string]bool{}
	count := func(n *int, h config.Handler) {
		if seen[h.Key] { // a retry handler of several types
			return
		}
		seen[h.Key] = true
		*n++
		if argv := h.Program(); h.HTTP == nil && (len(argv) == 0 || argv[0] == "") { // that is known by now
			return
		}
		if err := canRun(c, h); err != nil {
			errs = append(errs, &config.Mistake{File: c.File, Key: h.Key, Err: err})
			return
		}
		d.Warnings = append(d.Warnings, doubts(c, h)...)
	}
	for _, q := range c.Queues {
		d.Queues++
		for _, t := range q.Types {
			d.JobTypes++
			if h, ok := q.Handlers[t.Name]; ok {
				count(&d.Handlers, h)
			}
			if h, ok := q.RetryHandlers[t.Name]; ok {
				count(&d.RetryHandlers, h)
			}
		}
	}
	return errors.Join(errs...)
}

// connection looks at what Open would refuse, and if wanted asks the database for the tables of the instance and of all
// queues.
func (d *checked) connection(cmd *cobra.Command, c *config.Config, ask bool) error {
	if err := c.Database.Check(); err != nil || !ask {
		return err
	}
	d.Database = true
	i, err := connect(cmd.Context(), c)
	if err != nil {
		return err
	}
	defer i.close()
	if len(i.unfit) > 0 {
		return i.unfit
	}
	return i.divided(cmd.Context(), c)
}

// divided says which queues are divided into shards otherwise than the config says, so that workers with it leave them out.
func (i *instance) divided(ctx context.Context, c *config.Config) error {
	var otherwise []error
	for _, o := range c.Queues {
		q, err := i.queue(ctx, o.Name)
		if err != nil {
			return err
		}
		d, err := admin.Of(q).Division(ctx)
		if err != nil {
			return err
		}
		if d.Otherwise != nil {
			otherwise = append(otherwise, fmt.Errorf("queue %s: %w", q.Name, d.Otherwise))
		}
	}
	return errors.Join(otherwise...)
}
