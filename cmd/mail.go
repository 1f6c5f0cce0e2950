package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
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
		outage, none := misconfigured(a, a.command, what)
		a.mailBack(c, outage, none)
		outage, none = outageOf(c, a.command, what)
		a.mailBack(c, outage, none)
		return nil
	case !a.isAway(err):
		return a.mailMisconfigured(c, what, err)
	case !a.mailsOutages():
		return err
	case a.command != "work" && fails(outageOf(c, "work", what)): // work has mailed it
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
	outage, none := outageOf(c, a.command, what)
	switch {
	case caught && (lost || from.IsZero()): // this host may have stalled, or a lock was held
	case !c.Mail && !caught:
		return unsaid{err}
	case none == nil: // otherwise this user has no folder for notes
		if from.IsZero() {
			from = now
		}
		since, say, e := outage.Goes(from, now, "", outageAgain)
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

func caughtIn(done worker.Summary, zone *time.Location) string {
	said := fmt.Sprintf("the database last answered at %s, %s ago", zonedTime(done.Answered, zone), texts.Duration(time.Since(done.Answered).Round(time.Second)))
	if n := done.Unsettled(); n > 0 {
		said += fmt.Sprintf("; the results of %s could not be saved: the jobs count as lost with their worker, and are retried by their retry policy",
			texts.Count(n, "job"))
	}
	return said
}

// misconfigured is the outage of a command that exits with 78. The command line identifies it, not the config.
func misconfigured(a *app, command string, what []string) (*alert.Outage, error) {
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return alert.OutageOf(strings.Join(append([]string{"78", command, a.configFile, os.Getenv("HIPQ_CONFIG"), folder}, what...), "\x00"))
}

// mailMisconfigured prints an error of exit code 78 at first, then once an hour. Without a config, c is nil.
func (a *app) mailMisconfigured(c *config.Config, what []string, err error) error {
	code, _ := a.diagnose(err)
	outage, none := misconfigured(a, a.command, what)
	if code != exitConfig || none != nil || !a.mailsOutages() {
		return err
	}
	if a.command != "work" && fails(misconfigured(a, "work", what)) { // work has mailed it
		return unsaid{err}
	}
	now, zone := time.Now(), time.UTC
	if c != nil {
		zone = c.Location
	}
	since, say, e := outage.Goes(now, now, texts.Fingerprint(err.Error())+" "+oneLine(strings.Join(joined(err), "; ")), misconfiguredAgain)
	switch {
	case e != nil || say && since.Equal(now):
		return err
	case !say || c != nil && !c.Mail:
		return unsaid{err}
	}
	return advised{err, fmt.Sprintf("hipq %s first failed at %s; this is repeated once an hour until it is over", a.command, zonedTime(since, zone))}
}

// mailBack prints that an outage is over.
func (a *app) mailBack(c *config.Config, outage *alert.Outage, none error) {
	if none == nil && a.mailsOutages() {
		if since, over, why, err := outage.Ends(time.Now()); err == nil && !since.IsZero() && c.Mail {
			if why != "" {
				why = ": " + why
			}
			a.say(fmt.Sprintf("hipq %s recovered at %s; it first failed at %s%s", a.command, zonedTime(over, c.Location), zonedTime(since, c.Location), why))
		}
	}
}

// byHand reports whether a person started the command, at a terminal.
func (a *app) byHand() bool { return a.onTerminal() || a.err.isTerminal() }

// isRead reports whether the caller reads all output, so that nothing is left out as mailed before.
func (a *app) isRead() bool { return a.byHand() || a.verbose || a.json }

// mailsOutages reports whether cron mails outages: a caller who reads along, or ended the command, hears of them anyway.
func (a *app) mailsOutages() bool { return !a.isRead() && a.signals.ended() == 0 }

func outageOf(c *config.Config, command string, what []string) (*alert.Outage, error) {
	return alert.OutageOf(strings.Join(append([]string{command, c.File}, what...), "\x00"))
}

// fails reports whether an outage lasts, or its end was not yet told.
func fails(outage *alert.Outage, none error) bool { return none == nil && outage.IsKnown() }

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
