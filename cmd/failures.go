package cmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

func (a *app) failuresCommand() *cobra.Command {
	var f filterFlags
	var single bool
	c := command("failures", func(cmd *cobra.Command, args []string) error {
		f.unless = []admin.Status{admin.Failed, admin.Retry}
		if !single {
			return a.openJobs(cmd, args, &f, func(i *instance, queues []*queue.Queue, by admin.Filter, states []admin.Status) error {
				return a.runFailures(cmd.Context(), i, queues, by, states)
			})
		}
		return a.listJobs(cmd, args, &f, func(i *instance) *table {
			return newTable(a.out, "QUEUE", "ID", "TYPE", "KEY", "ATTEMPT", i.zoned("FAILED"), "RETRY", "ERROR").
				narrowing([]string{"TYPE", "KEY", "ERROR"}, []string{"ATTEMPT", i.zoned("FAILED"), "KEY", "QUEUE", "RETRY"})
		}, func(i *instance, j *job.Job) []string {
			retry := links(j)
			if j.State() == job.Retry {
				retry = "at " + i.localCell(j.ScheduledRunTime)
			}
			return []string{j.Queue, number(j.ID), j.Type, j.Key, strconv.Itoa(j.Attempt), i.localCell(j.UpdateTime), retry, problem(j)}
		})
	})
	f.addOfJobs(c.Flags(), admin.Failed, admin.Retry, admin.Closed)
	c.Flags().IntVar(&f.limit, "limit", tableRows, "only the newest N of each queue (0: all; the default for --json)")
	c.Flags().BoolVar(&single, "jobs", false, "list the jobs one by one")
	return c
}

type failureKind struct {
	Queue string `json:"queue"`
	admin.Failure
	// Error is the error of Example, at most 4,096 characters.
	Error *string `json:"error"`
	// Retry is the shell command that retries these jobs now. It is null for "closed" jobs, which may have
	// succeeded, and for rows that can't be jobs.
	Retry *string `json:"retry"`
	// Dismiss is the shell command that dismisses them; null unless State is "failed".
	Dismiss *string `json:"dismiss"`
	// show is the command that lists these jobs.
	show string
}

func (a *app) runFailures(ctx context.Context, i *instance, queues []*queue.Queue, by admin.Filter, states []admin.Status) error {
	none := true
	for _, q := range queues {
		for _, by.Status = range states {
			n, err := a.printFailures(ctx, i, q, by)
			if err != nil {
				return err
			}
			none = none && n == 0
		}
	}
	if none && !a.json && a.out.isTerminal() {
		a.out.line("there are none")
	}
	return nil
}

func (a *app) printFailures(ctx context.Context, i *instance, q *queue.Queue, by admin.Filter) (int, error) {
	found, err := admin.Of(q).Telling(a.telling("reads failures of "+q.Name)).Failures(ctx, by)
	if a.endBar(); err != nil {
		return 0, err
	}
	for _, k := range found.Kinds {
		if err := a.printFailure(i, failureOf(q.Name, by, k, a.printed)); err != nil {
			return 0, err
		}
	}
	switch {
	case a.json && found.Others > 0 && by.Limit == 0, a.json && found.More:
		a.warn(fmt.Errorf("%s has more failed jobs", q.Name))
	case a.json:
	case found.More:
		a.out.line("and older jobs of %s; --until lists them", q.Name)
	case found.Others > 0:
		a.out.line("and %s of %s that failed in other ways; --limit lists more", texts.Count(found.Others, "job"), q.Name)
	}
	return len(found.Kinds), a.out.err
}

// failureOf describes a failure. Its commands select exactly the jobs of this kind that the filter matches. complete adds to them
// what their reader needs.
func failureOf(queue string, by admin.Filter, f admin.Failure, complete func(string) string) failureKind {
	command := func(verb string, more ...string) string {
		words := append([]string{"hipq", verb, queue}, more...)
		for _, flag := range [][2]string{
			{"--type", f.Type}, {"--key", by.Key}, {"--error", by.Error}, {"--fingerprint", f.Fingerprint}, {"--since", stamp(by.Since)}, {"--until", stamp(by.Until)},
		} {
			if flag[1] != "" {
				words = append(words, flag[0], texts.ShellWord(flag[1]))
			}
		}
		return complete(strings.Join(words, " "))
	}
	k := failureKind{Queue: queue, Failure: f, Error: texts.NullText(f.Error), show: command("failures")}
	switch f.State {
	case admin.Closed:
	case admin.Retry:
		k.Retry, k.show = new(command("reschedule", "--in", "0s", "--state", string(admin.Retry))), command("failures", "--state", string(admin.Retry))
	default:
		if k.Dismiss = new(command("dismiss")); !refused(f.Error) {
			k.Retry = new(command("retry"))
		}
	}
	return k
}

// refused reports whether the jobs can't be retried because their rows are invalid. A handler that can't read
// job_data gives the same error, but such a job can be retried.
func refused(failure string) bool {
	why, invalid := strings.CutPrefix(failure, job.ErrInvalid.Error()+": ")
	return invalid && !strings.HasPrefix(why, "job_data: ")
}

func retryAt(i *instance, f admin.Failure) string {
	if f.Jobs == 1 {
		return "it will be retried at " + i.local(f.NextRetry.Time)
	}
	return "the first retry is at " + i.local(f.NextRetry.Time)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// printFailure prints a failure. For people, each line has its own form: the one with the error begins with its job.
func (a *app) printFailure(i *instance, k failureKind) error {
	if a.json {
		return a.out.json(k)
	}
	what, first, last := "failed", i.local(k.First.Time), i.local(k.Last.Time)
	if or0(k.Error) == job.Cancelled {
		what = job.Cancelled
	}
	if first == last {
		what += " at " + first
	} else {
		what += " from " + first + " to " + last
	}
	if k.State == admin.Retry {
		what += "; " + retryAt(i, k.Failure)
	}
	a.out.line("%s %s: %s %s", k.Queue, texts.ShellWord(k.Type), texts.Count(k.Jobs, "job"), what)
	a.out.line("  job %d: %s", k.Example, dash(or0(k.Error)))
	for _, command := range []*string{k.Retry, k.Dismiss} {
		if command != nil {
			a.out.line("  %s", *command)
		}
	}
	return a.out.err
}
