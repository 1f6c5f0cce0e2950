package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

const (
	// mailedWithin limits the time that a tick spends on mails, also after it was told to stop.
	mailedWithin = 10 * time.Second
	// mailedAgain is how often a kind of failure is mailed. unhandledAgain is for a type without a worker.
	mailedAgain, unhandledAgain = time.Hour, 24 * time.Hour
	// outageAgain is how often an outage is mailed while it lasts. misconfiguredAgain is for exit code 78.
	outageAgain, misconfiguredAgain = 15 * time.Minute, time.Hour
	// inTurnAgain is how often a schedule is mailed that keeps starting over.
	inTurnAgain = 24 * time.Hour
)

// unsaid is an error that is not printed, because cron would mail it again.
type unsaid struct{ error }

func (e unsaid) Unwrap() error { return e.error }

// mailOutage thins out an error that each tick would print. what is what the tick works on, because each crontab line
// has its own outages. A tick that started jobs always reports its error.
func (a *app) mailOutage(c *config.Config, what []string, done worker.Summary, err error) error {
	switch {
	case err == nil:
		a.mailBack(c, what)
		return nil
	case !a.isAway(err):
		return a.mailMisconfigured(c, what, err)
	case !a.mailsOutages():
		return err
	case a.command != "work" && a.fails("work", what): // work has mailed it
		return unsaid{err}
	}
	now, from := time.Now(), done.Answered
	trouble, _ := schema.Diagnose(err)
	lost := errors.Is(err, worker.ErrLockLost) && trouble == schema.NoTrouble
	caught := done.Started > 0 || lost
	var said []string
	if caught && !from.IsZero() {
		said = append(said, caughtIn(done, c.Location))
	}
	outage, none := a.outage(a.command, what)
	switch {
	case caught && (lost || from.IsZero()): // this host may have stalled, or a lock was held
	case !c.Mail && !caught:
		return unsaid{err}
	case none == nil: // otherwise this user has no folder for notes
		if from.IsZero() {
			from = now
		}
		since, say, e := outage.Goes(from, now, cause(err), outageAgain)
		if !say && !caught {
			return unsaid{err}
		}
		if e == nil {
			said = append(said, fmt.Sprintf("hipq %s first failed at %s; this message is repeated every 15 minutes until the problem is solved", a.command, zonedTime(since, c.Location)))
		}
	}
	if len(said) > 0 {
		err = advised{err, strings.Join(said, "; ")}
	}
	return err
}

// cause is what a failure is known by: its remedy if it is the database's own error, which hipq meets in many places, else its
// text.
func cause(err error) alert.Cause {
	text := oneLine(strings.Join(joined(err), "; "))
	known := text
	if _, remedy := schema.Diagnose(err); remedy != "" && !errors.Is(err, schema.ErrNotMigrated) && !errors.Is(err, schema.ErrNewer) {
		known = remedy
	}
	if errors.As(err, new(gone)) { // not what was said before it was first there
		known = "gone"
	}
	return alert.Cause{Word: texts.Fingerprint(known), Text: text}
}

func caughtIn(done worker.Summary, zone *time.Location) string {
	said := fmt.Sprintf("the database last answered at %s, %s ago", zonedTime(done.Answered, zone), texts.Duration(time.Since(done.Answered).Round(time.Second)))
	if n := done.Unsettled(); n > 0 {
		said += fmt.Sprintf("; the results of %s could not be saved: the jobs count as lost with their worker, and are retried by their retry policy",
			texts.Count(n, "job"))
	}
	return said
}

// outage is what this host knows of the failures of a command with this config, which may not be readable.
func (a *app) outage(command string, what []string) (*alert.Outage, error) {
	file := cmp.Or(a.configFile, os.Getenv("HIPQ_CONFIG"))
	for _, place := range config.Places(map[string]string{"HOME": os.Getenv("HOME"), "XDG_CONFIG_HOME": os.Getenv("XDG_CONFIG_HOME")}) {
		if _, err := os.Lstat(place); err == nil && file == "" {
			file = place
		}
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	return alert.OutageOf(strings.Join(append([]string{command, file}, what...), "\x00"))
}

// mailMisconfigured prints an error of exit code 78 at first, then once an hour. Without a config, c is nil.
func (a *app) mailMisconfigured(c *config.Config, what []string, err error) error {
	code, _ := a.diagnose(err)
	outage, none := a.outage(a.command, what)
	if code != exitConfig || none != nil || !a.mailsOutages() {
		return err
	}
	if a.command != "work" && a.fails("work", what) { // work has mailed it
		return unsaid{err}
	}
	now, zone := time.Now(), time.UTC
	if c != nil {
		zone = c.Location
	}
	since, say, e := outage.Goes(now, now, cause(err), misconfiguredAgain)
	switch {
	case e != nil || say && since.Equal(now):
		return err
	case !say || c != nil && !c.Mail:
		return unsaid{err}
	}
	return advised{err, fmt.Sprintf("hipq %s first failed at %s; this is repeated once an hour until it is over", a.command, zonedTime(since, zone))}
}

// mailBack prints that an outage is over.
func (a *app) mailBack(c *config.Config, what []string) {
	if outage, none := a.outage(a.command, what); none == nil && a.mailsOutages() {
		if since, over, why, err := outage.Ends(time.Now()); err == nil && !since.IsZero() && c.Mail {
			if why != "" {
				why = ": " + why
			}
			a.say(fmt.Sprintf("hipq %s recovered at %s; it first failed at %s%s", a.command, zonedTime(over, c.Location), zonedTime(since, c.Location), why))
		}
	}
}

// byHand reports whether a person started the command: one of its standard files is a terminal, which cron has not.
func (a *app) byHand() bool { return a.out.isTerminal() || a.err.isTerminal() || a.typed }

// isRead reports whether the caller reads all output, so that nothing is left out as mailed before.
func (a *app) isRead() bool { return a.byHand() || a.verbose || a.json }

// mailsOutages reports whether cron mails outages: a caller who reads along, or ended the command, hears of them anyway.
func (a *app) mailsOutages() bool { return !a.isRead() && a.signals.ended() == 0 }

// fails reports whether an outage of a command lasts, or its end was not yet told.
func (a *app) fails(command string, what []string) bool {
	outage, none := a.outage(command, what)
	return none == nil && outage.IsKnown()
}

// say prints news that is not an error.
func (a *app) say(text string, more ...string) {
	said := oneLines(append([]string{text}, more...))
	if a.json {
		_ = a.err.json(map[string]string{"notice": strings.Join(said, "\n")})
		return
	}
	a.err.text("hipq: %s\n", strings.Join(said, "\n  "))
}

// tell prints news and returns an error if it could not. Without an error, the caller notes the news as told.
func (a *app) tell(text string, more ...string) error {
	a.say(text, more...)
	return texts.Wrap(a.err.err, "print")
}

// mailNews prints the news of a tick that took so long, unless another tick did. What it can't read is left to the next
// tick; the tick's result stays the same.
func (a *app) mailNews(ctx context.Context, i *instance, p worker.Params, took time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mailedWithin)
	defer cancel()
	now, err := i.db.SQL.Clock(ctx)
	if err == nil {
		err = a.mailFailures(ctx, i, now, now.Add(-took-lately))
	}
	if err == nil {
		err = a.mailInTurn(ctx, i, now)
	}
	if err == nil {
		err = a.mailHandled(ctx, i, p)
	}
	if err == nil { // last, because it may use up the time
		err = a.mailUnhandled(ctx, i, now)
	}
	if err != nil && ctx.Err() == nil {
		if trouble, _ := schema.Diagnose(err); trouble != schema.TryLater {
			a.warn(fmt.Errorf("look for what to mail: %w", err))
		}
	}
}

// mailed returns the queues whose jobs a tick mails about: those of its config.
func (i *instance) mailed() (queues []*queue.Queue, err error) {
	for _, c := range i.Queues {
		if i.unfit[c.Name] != nil {
			continue
		}
		q, err := queue.New(i.db, c.Options)
		if err != nil {
			return nil, err
		}
		queues = append(queues, q)
	}
	return queues, nil
}

// command completes a command for the reader of a mail, who has neither the crontab's variables nor its folder.
func (i *instance) command(text string) string {
	passwd, _ := os.ReadFile("/etc/passwd")
	text = asService(string(passwd), me()) + text
	if i.File == config.Everywhere {
		return text
	}
	return text + " --config " + texts.ShellWord(i.File)
}

// asService is the prefix with which root runs a command of a service's user, because that user has no login shell.
func asService(passwd, name string) string {
	for line := range strings.Lines(passwd) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if shell := fields[len(fields)-1]; fields[0] == name && (strings.HasSuffix(shell, "/nologin") || strings.HasSuffix(shell, "/false")) {
			return "runuser -u " + texts.ShellWord(name) + " -- "
		}
	}
	return ""
}

func me() string {
	if who, err := user.Current(); err == nil {
		return who.Username
	}
	return strconv.Itoa(os.Getuid())
}

// operator names the person who runs a command.
func operator() string { return cmp.Or(os.Getenv("SUDO_USER"), me()) }

// runAs says as which user and on which host to run a mail's commands, and names the instance.
func (i *instance) runAs() string {
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	name := me()
	if passwd, _ := os.ReadFile("/etc/passwd"); asService(string(passwd), name) != "" {
		name = "root"
	}
	return fmt.Sprintf("run as: %s on %s (instance %s)", name, host, i.Name)
}

// mailInTurn mails schedules that keep starting over. It looks once an hour.
func (a *app) mailInTurn(ctx context.Context, i *instance, now time.Time) error {
	if len(i.Schedules) == 0 {
		return nil
	}
	board := alert.NewLog(i.db)
	return board.Once(ctx, "looked at schedules", now, time.Hour, func() error {
		rows, err := scheduler.New(i.db, i.Schedules).Own(ctx)
		for _, r := range rows {
			if err == nil && r.InTurn() {
				err = board.Once(ctx, "schedule in turn "+r.Name, now, inTurnAgain, func() error {
					return a.tell(fmt.Sprintf("schedule %s keeps starting over, and may lose slots: one config has it as %s, another as %s",
						r.Name, r.FormerSpec, r.Spec), "give all hosts the same when and zone, or each schedule its own name")
				})
			}
		}
		return err
	})
}
