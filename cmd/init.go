package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/doctor"
	"github.com/hipq/hipq/internal/files"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/schema"
)

func (a *app) initCommand() *cobra.Command {
	var ddl, yes bool
	var grants, framework string
	c := command("init", func(cmd *cobra.Command, _ []string) error {
		switch {
		case ddl:
			return a.printDDL(cmd)
		case grants != "":
			return a.printGrants(cmd, grants)
		}
		return a.runInit(cmd, framework, yes)
	})
	c.Flags().BoolVar(&ddl, "print", false, "print the DDL instead of running it")
	c.Flags().StringVar(&grants, "print-grants", "", "print the MySQL privileges that init, hipq and an application need, or `PART` 1 to 8 of them, and change nothing")
	c.Flags().Lookup("print-grants").NoOptDefVal = allGrants
	c.Flags().BoolVar(&yes, "yes", false, "create an empty database in place of one that is gone, without asking")
	c.Flags().StringVar(&framework, "for", "", "write a hipq.yaml for the application in this folder: `FRAMEWORK` is "+strings.Join(config.Frameworks(), ", "))
	c.MarkFlagsMutuallyExclusive("print", "print-grants", "for")
	_ = c.Flags().SetAnnotation("for", wordsOfFlag, config.Frameworks())
	return c
}

func (a *app) printDDL(cmd *cobra.Command) error {
	return a.printSQL(cmd, "ddl", func(c *config.Config, names schema.Names) (string, error) {
		var parts []string
		for _, of := range []func(string, schema.Names, []schema.Queue) (string, error){schema.DDL, schema.ViewsDDL, schema.ProceduresDDL} {
			part, err := of(c.Database.Driver, names, c.QueueTables())
			if err != nil {
				return "", err
			}
			if part != "" { // SQLite has no procedures
				parts = append(parts, part)
			}
		}
		return strings.Join(parts, "\n"), nil
	})
}

const allGrants = "all"

func (a *app) printGrants(cmd *cobra.Command, part string) error {
	n, most := 0, len(schema.Rights{}.Parts())
	if part != allGrants {
		if n, _ = strconv.Atoi(part); n < 1 || n > most {
			return usagef("--print-grants=%s: want a part from 1 to %d, or none for all", part, most)
		}
	}
	return a.printSQL(cmd, "grants", func(c *config.Config, names schema.Names) (string, error) {
		grants, err := schema.Grants(c.Database, names, c.QueueTables())
		if n > 0 {
			return grants.Parts()[n-1], err
		}
		return grants.String(), err
	})
}

func (a *app) printSQL(cmd *cobra.Command, what string, of func(*config.Config, schema.Names) (string, error)) error {
	c, err := a.load(cmd)
	if err != nil {
		return err
	}
	names, err := c.Names()
	if err != nil {
		return err
	}
	text, err := of(c, names)
	switch {
	case err != nil:
		return err
	case a.json:
		return a.out.json(map[string]string{what: text})
	}
	a.out.text("%s", text)
	return nil
}

type initialised struct {
	// Config is the config file.
	Config string `json:"config"`
	// Written is true if hipq init wrote the config file.
	Written bool `json:"config_written"`
	// Steps are what is left to do in the application for whose framework the config is, and the lines for its crontab.
	Steps []string `json:"steps,omitempty"`
	// Tables are the tables that were created or migrated.
	Tables []string `json:"tables"`
	// Grants are the rights to the tables of new queues that users with rights to single tables need.
	Grants []string `json:"grants,omitempty"`
	// Divided are the queues with a new division, or with jobs that an interrupted hipq init had not moved.
	Divided []divided `json:"divided"`
	// Limited are the queues with a new throttle limit, throttle groups or rate.
	Limited []string `json:"limited,omitempty"`
	// Procedures are the stored procedures that were created.
	Procedures []string `json:"procedures"`
	// LeftOut is why there are no procedures.
	LeftOut string `json:"procedures_left_out,omitempty"`
	// RightsLost is a sentence with the rights to call the procedures that you must grant again.
	RightsLost string `json:"procedures_rights_lost,omitempty"`
	// Views are the views that were created.
	Views []string `json:"views,omitempty"`
	// ViewsLeftOut is why there are no views.
	ViewsLeftOut string `json:"views_left_out,omitempty"`
	// isNew says that the database had no tables of the instance.
	isNew bool
}

type divided struct {
	Queue string `json:"queue"`
	// Shards is the number of its shards.
	Shards int `json:"shards"`
	// Moved is the number of jobs that were moved.
	Moved int `json:"moved"`
}

// countProcedures says how many stored procedures were made; "" if none.
func (done *initialised) countProcedures() string {
	n, helpers := len(done.Procedures), 0
	for _, name := range done.Procedures {
		helpers += min(1, strings.Count(name, "$"))
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("created %d stored procedures (%d with their parts, and those of each queue)", n-helpers, n)
}

func (a *app) runInit(cmd *cobra.Command, framework string, yes bool) error {
	var done initialised
	c, err := a.load(cmd)
	if framework != "" || errors.Is(err, config.ErrNotFound) && !errors.Is(err, config.ErrInvalid) {
		file := cmp.Or(a.configFile, os.Getenv("HIPQ_CONFIG"), "hipq.yaml") // where the next command finds it
		if err := done.writeStarter(file, framework); err != nil {
			return err
		}
		c, err = a.load(cmd)
	}
	if err != nil {
		return err
	}
	for _, command := range []string{"work", "monitor", "purge"} {
		if framework != "" {
			done.Steps = append(done.Steps, "crontab -e: "+doctor.CrontabLine(command, c.File))
		}
	}
	done.Config, done.Tables, done.Divided, done.Procedures = c.File, []string{}, []divided{}, []string{}
	if !yes {
		if err := a.confirmEmpty(cmd.Context(), c); err != nil {
			return err
		}
	}
	if err := done.migrate(cmd, c); err != nil {
		return err
	}
	for _, err := range cantRun(c, nil, nil, nil) {
		a.warn(err)
	}
	if a.json {
		return a.out.json(done)
	}
	a.sayInit(c.Name, done)
	return nil
}

func (a *app) sayInit(instance string, done initialised) {
	if done.Written {
		a.out.line("wrote %s", done.Config)
	}
	procedures := done.countProcedures()
	switch {
	case done.isNew && len(done.Tables) > 0 && procedures != "":
		a.out.line("created %s of instance %s, and %s", texts.Count(len(done.Tables), "table"), instance, strings.TrimPrefix(procedures, "created "))
		procedures = ""
	case done.isNew && len(done.Tables) > 0:
		a.out.line("created %s of instance %s", texts.Count(len(done.Tables), "table"), instance)
	case len(done.Tables) == 0:
		a.out.line("all tables are up to date")
	default:
		for _, t := range done.Tables {
			a.out.line("created or migrated table %s", t)
		}
	}
	below := func(heading string, lines []string) {
		for n, line := range lines {
			if n == 0 {
				a.out.line("%s:", heading)
			}
			a.out.line("  %s", line)
		}
	}
	below("users with rights to single tables need them to the new ones too; hipq init --print-grants prints all, with triggers and procedures", done.Grants)
	for _, d := range done.Divided {
		a.out.line("divided queue %s into %s, and moved %s", d.Queue, texts.Count(d.Shards, "shard"), texts.Count(d.Moved, "waiting job"))
	}
	for _, q := range done.Limited {
		a.out.line("applied the new limits of queue %s", q)
	}
	for _, said := range []string{procedures, done.LeftOut, done.RightsLost, done.ViewsLeftOut} {
		if said != "" {
			a.out.line("%s", said)
		}
	}
	below("next", done.Steps)
}

func (done *initialised) migrate(cmd *cobra.Command, c *config.Config) (err error) {
	names, err := c.Names()
	if err != nil {
		return err
	}
	c.Database.Create, c.Database.Patient = true, true
	db, err := schema.Open(cmd.Context(), c.Database, names)
	if err != nil {
		return locate(c, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	owned, _ := db.Owned(cmd.Context()) // it fails in a new database, which has no tables
	done.isNew = owned[c.Name] == nil
	made, err := db.Migrate(cmd.Context(), c.QueueTables())
	if err != nil {
		return err
	}
	if others := doctor.Others(c, owned); others != "" {
		c.Database.Warn(fmt.Errorf("instance %s is new in this database, which has %s", c.Name, others))
	}
	done.Tables = append(done.Tables, made...)
	done.Grants = newRights(c, names, owned[c.Name], made)
	for _, q := range c.Queues {
		if err := done.register(cmd.Context(), db, q.Options); err != nil {
			return err
		}
	}
	if len(c.Schedules) > 0 { // so that they begin now and not at the next tick
		if _, err := saveSchedules(cmd.Context(), db, c.Schedules); err != nil {
			return err
		}
	}
	done.Views, err = db.MakeViews(cmd.Context(), c.QueueTables())
	if errors.Is(err, schema.ErrNoViews) {
		done.ViewsLeftOut, err = err.Error(), nil
	}
	if err != nil {
		return err
	}
	made, err = db.MakeProcedures(cmd.Context(), c.QueueTables())
	done.Procedures = append(done.Procedures, made...)
	switch {
	case errors.Is(err, schema.ErrNoProcedures):
		done.LeftOut, err = err.Error(), nil
	case errors.Is(err, schema.ErrRightsLost):
		done.RightsLost, err = err.Error(), nil
	}
	return err
}

// newRights are the statements for the tables of queues that are new in an instance: for the user of the other commands,
// if init has a user of its own, and for applications.
func newRights(c *config.Config, names schema.Names, owned, made []string) (grants []string) {
	rights, err := schema.Grants(c.Database, names, slices.DeleteFunc(c.QueueTables(), func(q schema.Queue) bool {
		table, err := names.CheckQueue(q.Name)
		return err != nil || !slices.Contains(made, table) || slices.Contains(owned, q.Name)
	}))
	if err != nil || owned == nil { // SQLite has no users, and a new instance needs all grants
		return nil
	}
	if last := len(rights.Tables) - len(rights.Application); !strings.HasPrefix(c.DSNFrom, "database.") {
		for _, grant := range rights.Worker[last:] { // after those of the instance's tables
			grant, _, _ = strings.Cut(grant, " TO ")
			grants = append(grants, grant+" TO 'hipq'@'%';")
		}
	}
	return append(grants, rights.Application...)
}

// register registers a queue and divides its jobs by the config. It also completes an interrupted division.
func (done *initialised) register(ctx context.Context, db *schema.DB, o queue.Options) error {
	q, err := queue.New(db, o)
	if err != nil {
		return err
	}
	err = q.Register(ctx)
	anew := errors.Is(err, queue.ErrShards)
	if err != nil && !anew {
		return err
	}
	limits := errors.Is(err, queue.ErrLimits)
	moved, err := admin.Of(q).Reshard(ctx)
	if anew && !limits || moved > 0 {
		done.Divided = append(done.Divided, divided{q.Name, o.Shards, moved})
	}
	if limits && err == nil {
		done.Limited = append(done.Limited, q.Name)
	}
	if errors.Is(err, queue.ErrShards) {
		return fmt.Errorf("queue %s: %w", q.Name, err) // another init with another config was faster
	}
	return err
}

func saveSchedules(ctx context.Context, db *schema.DB, all []schedule.Schedule) (map[string]scheduler.Row, error) {
	rows, failed, err := scheduler.New(db, all).Load(ctx, 0)
	return rows, errors.Join(append(slices.Collect(maps.Values(failed)), err)...)
}

// writeStarter writes a first config, for the application of a framework that may be there. It never replaces a file: without
// a framework, another init may have been faster.
func (done *initialised) writeStarter(file, framework string) (err error) {
	s := config.NewStarter()
	if framework != "" {
		if _, err := os.Lstat(file); err == nil {
			return usagef("%s is there, and --for replaces no file; move it away first", file)
		}
		if s, err = config.StarterFor(framework, filepath.Dir(file)); err != nil {
			return err
		}
	}
	write := func(file, text string) error {
		err := files.Write(file, []byte(text), 0o600, os.Link) // it may get a password
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: write the first config: %w", config.ErrInvalid, err)
		}
		done.Written = true
		return nil
	}
	if s.DSN != "" {
		if err := write(filepath.Join(filepath.Dir(file), config.DSNFile), s.DSN+"\n"); err != nil {
			return err
		}
	}
	done.Steps = s.Steps
	return write(file, string(s.Config))
}
