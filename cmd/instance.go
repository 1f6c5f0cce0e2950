package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/doctor"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/schema"
)

// instance is the config and the database of a command.
type instance struct {
	*config.Config
	db *schema.DB
	// unfit has the config's queues whose tables can't be used: mostly new ones before hipq init.
	unfit schema.QueueErrors
}

// patient is for a command that reads or deletes much. The database may take longer to answer.
const patient, brief = true, false

// catchUpWithin is how long a command waits until its node has the others' commits. A node that is far behind, for
// example during a backup, still shows what it has.
const catchUpWithin = 5 * time.Second

// open reads the config and opens its database until do returns. The tables of the instance and of at least one queue
// must exist and be up to date. It waits for earlier commits, because on a cluster they may have been made at another node.
func (a *app) open(cmd *cobra.Command, patience bool, do func(*instance) error) error {
	c, err := a.load(cmd)
	if err != nil {
		return err
	}
	c.Database.Patient = patience
	return connect(cmd.Context(), c, func(i *instance) error {
		wait, cancel := context.WithTimeout(cmd.Context(), catchUpWithin)
		defer cancel()
		behind := i.db.SQL.CatchUp(wait)
		if behind != nil && (wait.Err() == nil || cmd.Context().Err() != nil) {
			return behind
		}
		err := do(i)
		if err != nil && behind != nil { // what it didn't find may be on the other nodes
			err = errors.Join(err, behind)
		}
		return err
	})
}

// aboutQueue opens the instance for a command about one queue.
func (a *app) aboutQueue(cmd *cobra.Command, patience bool, name string, do func(*instance, *queue.Queue) error) error {
	return a.open(cmd, patience, func(i *instance) error {
		q, err := i.queue(cmd.Context(), name)
		if err != nil {
			return err
		}
		return do(i, q)
	})
}

func connect(ctx context.Context, c *config.Config, do func(*instance) error) error {
	names, err := c.Names()
	if err != nil {
		return err
	}
	db, err := schema.Open(ctx, c.Database, names)
	if err != nil {
		return locate(c, orGone(c, err))
	}
	defer func() { _ = db.Close() }()
	advice, err := doctor.Misnamed(ctx, db, c, db.Check(ctx, c.QueueTables()))
	if advice != "" {
		err = advised{err, advice}
	}
	unfit, _ := errors.AsType[schema.QueueErrors](err)
	if err != nil && (len(unfit) == 0 || len(unfit) == len(c.Queues)) {
		return orGone(c, err)
	}
	err = do(&instance{Config: c, db: db, unfit: unfit})
	if _, unreachable := errors.AsType[*net.OpError](err); unreachable || errors.Is(err, schema.ErrNoAnswer) || schema.IsFull(err) {
		err = locate(c, err)
	}
	return err
}

// queue finds a queue in the config, else among the registered ones.
func (i *instance) queue(ctx context.Context, name string) (*queue.Queue, error) {
	if err := i.unfit[name]; err != nil {
		return nil, err
	}
	if c, err := i.Queue(name); err == nil {
		return queue.New(i.db, c.Options)
	}
	all, err := i.options(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(o queue.Options) bool { return o.Name == name })
	if at < 0 {
		known := texts.Map(all, func(o queue.Options) string { return o.Name })
		return nil, unknown(fmt.Errorf("%w: %q; known: %s", config.ErrUnknownQueue, name, list(known)), name, known)
	}
	if err := i.db.Check(ctx, []schema.Queue{all[at].Table()}); err != nil {
		return nil, err
	}
	return queue.New(i.db, all[at])
}

func (i *instance) named(ctx context.Context, name string) ([]*queue.Queue, error) {
	if name == "" {
		return i.queues(ctx)
	}
	q, err := i.queue(ctx, name)
	return []*queue.Queue{q}, err
}

// options returns the usable queues of this config and all others that are registered in the database, by name.
func (i *instance) options(ctx context.Context) ([]queue.Options, error) {
	all, err := admin.Registered(ctx, i.db)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(o queue.Options) bool { return slices.Contains(i.QueueNames(), o.Name) })
	for n := range all {
		all[n].Location = i.Location
	}
	for _, c := range i.Queues {
		if i.unfit[c.Name] == nil {
			all = append(all, c.Options)
		}
	}
	slices.SortFunc(all, func(a, b queue.Options) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// queues returns all usable queues. It warns about other registered queues without a usable table.
func (i *instance) queues(ctx context.Context) ([]*queue.Queue, error) {
	all, err := i.options(ctx)
	if err != nil {
		return nil, err
	}
	var others []schema.Queue
	for _, o := range all {
		if !slices.Contains(i.QueueNames(), o.Name) {
			others = append(others, o.Table())
		}
	}
	var unfit schema.QueueErrors
	if len(others) > 0 {
		if err := i.db.Check(ctx, others); err != nil && !errors.As(err, &unfit) {
			return nil, err
		}
	}
	var list []*queue.Queue
	for _, o := range all {
		if err := unfit[o.Name]; err != nil {
			i.db.Warn(fmt.Errorf("queue %s is left out: %w", o.Name, err))
			continue
		}
		q, err := queue.New(i.db, o)
		if err != nil {
			return nil, err
		}
		list = append(list, q)
	}
	return list, nil
}

// state reads the instance's state. It adds unusable queues, overdue schedules and the disk to the database's
// figures. It counts up to most jobs of a type; 0 is all.
func (i *instance) state(ctx context.Context, most int64) (monitor.State, error) {
	s, err := monitor.New(i.db).State(ctx, i.Alert.Over, most)
	if err != nil {
		return s, err
	}
	for name, why := range i.unfit {
		s.LeftOut = append(s.LeftOut, monitor.LeftOut{Queue: name, Why: why.Error()})
	}
	slices.SortFunc(s.LeftOut, func(a, b monitor.LeftOut) int { return strings.Compare(a.Queue, b.Queue) })
	if path := i.Database.Path; path != "" {
		if v, unknown := monitor.DiskOf(filepath.Dir(path)); unknown == nil {
			s.Disk = &v
		}
	}
	if len(i.Schedules) == 0 {
		return s, nil
	}
	rows, err := scheduler.New(i.db, i.Schedules).Own(ctx)
	for _, r := range rows {
		if late := r.Overdue(); late > scheduler.OverdueFor {
			s.Overdue = append(s.Overdue, monitor.Overdue{Schedule: r.Name, For: late, Within: scheduler.OverdueFor})
		}
	}
	return s, err
}

// ofInstance matches commands that act on an instance, but not a question such as "is hipq work in crontab?".
var ofInstance = texts.Pattern(`\bhipq (?:(?:activity|cancel|complete|dismiss|doctor|enqueue|fail|failures|init|jobs|purge|queues|` +
	`reschedule|retry|run|schedules|show|status|why)\b|config check|monitor --(?:at|missing|report)|work$)`)

// withConfig adds --config to a text's commands, because a pasted command may find another instance's config.
func withConfig(text, file string) string {
	if file == "" {
		return text
	}
	const name = "hipq"
	return ofInstance().ReplaceAllStringFunc(text, func(command string) string {
		return name + " --config " + texts.ShellWord(file) + command[len(name):]
	})
}

// printed completes a text's commands for the user of this command line.
func (a *app) printed(text string) string { return withConfig(text, a.configFile) }

// shared completes a text's commands for readers with another command line and another working directory.
func (i *instance) shared(text string) string {
	if i.File == config.Everywhere {
		return text
	}
	return withConfig(text, i.File)
}

// health judges the state. pasteable completes the commands in its texts.
func (i *instance) health(s monitor.State, pasteable func(string) string) monitor.Health {
	s.Zone = i.Location
	h := i.Alert.Judge(s)
	h.Text = pasteable(h.Text)
	for n := range h.Findings {
		h.Findings[n].Text = pasteable(h.Findings[n].Text)
	}
	return h
}

// gone is the error for a database that existed before and is missing now. An empty one from hipq init would be in the
// way when the disk is mounted again.
type gone struct {
	error
	config *config.Config
	last   time.Time
}

func (e gone) Unwrap() error { return e.error }

func (e gone) until() string { return "it was there until " + zonedTime(e.last, e.config.Location) }

func (e gone) where() string {
	if e.config.Database.Path != "" {
		return "is its disk mounted?"
	}
	return "does database.dsn name the right server, or is it being restored?"
}

func (e gone) hint() string {
	return e.until() + "; " + e.where() + " Only if the data is really gone: hipq init --yes creates an empty one"
}

// seen is the key under which this user's ticks note when they last found the config's database.
func seen(c *config.Config) string {
	return cmp.Or(c.Database.Path, schema.WithoutPassword(c.Database.DSN)) + "\x00" + c.Name // only SQLite has a path
}

// orGone returns gone if err means that a database that existed is missing, otherwise err.
func orGone(c *config.Config, err error) error {
	if errors.Is(err, schema.ErrAbsent) {
		if last, unread := alert.Seen(seen(c)); unread == nil && !last.IsZero() {
			return gone{err, c, last}
		}
	}
	return err
}

// isAway reports whether err means that the database is unusable for now, or gone.
func (a *app) isAway(err error) bool {
	code, _ := a.diagnose(err)
	return code == exitTryLater || errors.As(err, new(gone))
}

// confirmEmpty asks on a terminal before init replaces a database that is gone. Without a terminal it refuses.
func (a *app) confirmEmpty(ctx context.Context, c *config.Config) error {
	err := connect(ctx, c, func(*instance) error { return nil })
	was, ok := errors.AsType[gone](err)
	switch {
	case !ok: // init creates the database, or reports what is wrong with it
		return nil
	case !a.out.isTerminal() || a.json:
		return err
	}
	return a.confirm(ctx, "the database is gone, "+was.until()+"; "+was.where()+" Create an empty one")
}
