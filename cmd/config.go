package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/doctor"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/admin"
)

func (a *app) configCommand() *cobra.Command {
	c := command("config", nil)
	c.AddCommand(a.configShowCommand(), a.configCheckCommand())
	return c
}

func (a *app) configShowCommand() *cobra.Command {
	c := command("config_show", func(cmd *cobra.Command, _ []string) error { return a.runConfigShow(cmd) })
	settingFlags(c.Flags())
	return c
}

func (a *app) runConfigShow(cmd *cobra.Command) error {
	settings, err := config.Explain(a.loadOptions(cmd))
	if err != nil {
		return err
	}
	if a.json {
		return a.out.json(settings)
	}
	const most = 40 // a longer value breaks the column
	rows, keys, values := make([][2]string, len(settings)), len("KEY"), len("VALUE")
	for i, s := range settings {
		text := dash("")
		switch value := s.Value.(type) {
		case nil:
		case string:
			text = value
		default: // a list is YAML in flow style
			line, err := texts.JSON(value)
			if err != nil {
				return err
			}
			text = strings.TrimSuffix(string(line), "\n")
		}
		rows[i] = [2]string{oneLine(s.Key), oneLine(text)}
		keys = max(keys, utf8.RuneCountInString(s.Key))
		if n := utf8.RuneCountInString(rows[i][1]); n <= most {
			values = max(values, n)
		}
	}
	a.out.line("%-*s  %-*s  %s", keys, "KEY", values, "VALUE", "FROM")
	for i, s := range settings {
		a.out.line("%-*s  %-*s  %s", keys, rows[i][0], values, rows[i][1], s.From)
	}
	return nil
}

func (a *app) configCheckCommand() *cobra.Command {
	var database bool
	c := command("config_check", func(cmd *cobra.Command, _ []string) error { return a.runConfigCheck(cmd, database) })
	c.Flags().BoolVar(&database, "database", false, "also check that the database is reachable and initialised")
	return c
}

type checked struct {
	// File is the config file; null if there is none that can be read.
	File *string `json:"file"`
	// Queues is the number of queues that were checked.
	Queues int `json:"queues"`
	// JobTypes is the number of job types that were checked.
	JobTypes int `json:"job_types"`
	// Handlers is the number of handlers that were checked.
	Handlers int `json:"handlers"`
	// RetryHandlers is the number of retry handlers that were checked.
	RetryHandlers int `json:"retry_handlers"`
	// Database is true if the database was checked.
	Database bool `json:"database"`
	// Findings are the mistakes in the config.
	Findings []finding `json:"findings"`
	// Warnings are sentences about what works but could be better.
	Warnings []string `json:"warnings"`
}

// finding is one mistake in the config. From names the variable that set the value, if the file didn't.
type finding struct {
	// Key is the key of the config, the variable, or the flag.
	Key *string `json:"key"`
	// From is the variable that set the key; null if the file did.
	From *string `json:"from"`
	// Message is the error. It is also printed on standard error.
	Message string `json:"message"`
}

func (a *app) runConfigCheck(cmd *cobra.Command, database bool) error {
	done := checked{Findings: []finding{}, Warnings: []string{}}
	c, err := config.Load(a.loadOptions(cmd))
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
		return errors.Join(err, a.out.json(done))
	}
	for _, warning := range done.Warnings {
		a.warn(errors.New(warning))
	}
	if err != nil {
		return err
	}
	said := "not checked; add --database"
	if done.Database {
		said = "initialised"
	}
	a.out.line("%s is fine (queues: %d, job types: %d, handlers: %d, retry handlers: %d, database: %s)",
		c.File, done.Queues, done.JobTypes, done.Handlers, done.RetryHandlers, said)
	return nil
}

func (d *checked) programs(c *config.Config) error {
	var errs []error
	seen := map[string]bool{}
	for _, q := range c.Queues {
		d.Queues, d.JobTypes, d.Handlers = d.Queues+1, d.JobTypes+len(q.Types), d.Handlers+len(q.Handlers)
	}
	eachHandler(c, func(_, _ string, h config.Handler) {
		if seen[h.Key] { // a retry handler that several types share
			return
		}
		seen[h.Key] = true
		if p := h.Program(); h.HTTP == nil && (p == nil || len(p.Argv) == 0 || p.Argv[0] == "") { // Load has reported it
			return
		}
		if err := canRun(h); err != nil {
			errs = append(errs, c.Mistake(h.Key, err))
			return
		}
		d.Warnings = append(d.Warnings, doubts(c, h)...)
	})
	d.RetryHandlers = len(seen) - d.Handlers
	return errors.Join(errs...)
}

// connection checks the database's settings offline. With ask it also checks the tables of the instance and of all
// queues.
func (d *checked) connection(cmd *cobra.Command, c *config.Config, ask bool) error {
	if err := c.Database.Check(); err != nil || !ask {
		return locate(c, err)
	}
	d.Database = true
	return connect(cmd.Context(), c, func(i *instance) error {
		if len(i.unfit) > 0 {
			return i.unfit
		}
		strays, err := doctor.Strays(cmd.Context(), i.db, c)
		d.Warnings = append(d.Warnings, strays...)
		return errors.Join(err, i.divided(cmd.Context(), c))
	})
}

// divided lists the queues whose shards or limits in the database aren't the config's. Workers leave them out.
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
