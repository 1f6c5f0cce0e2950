package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

func (a *app) workCommand() *cobra.Command {
	var types []string
	var shards string
	c := command("work", func(cmd *cobra.Command, args []string) error {
		what := slices.Concat(args, types)
		c, err := a.load(cmd)
		if err != nil {
			return a.mailMisconfigured(nil, what, err)
		}
		preferred, err := parseShards(shards)
		if err != nil {
			return err
		}
		var done worker.Summary
		if err = process.CanRun(); err != nil {
			err = usageError{err}
		} else {
			err = connect(cmd.Context(), c, func(i *instance) (err error) {
				done, err = a.runWork(cmd, i, args, types, preferred)
				return err
			})
		}
		if errors.Is(err, context.Canceled) {
			err = nil // interrupted before it began
		}
		return a.mailOutage(c, what, done, err)
	})
	f := c.Flags()
	f.StringArrayVar(&types, "type", nil, "only jobs of this type, may be repeated")
	f.StringVar(&shards, "shards", "", "the shards to prefer, such as 0-3,7 (default: those of the host's node, if database.nodes are set)")
	f.Int("max-jobs", 0, "end after this many jobs (0: no limit)")
	settingFlags(f)
	return c
}

func settingFlags(f *pflag.FlagSet) {
	f.String("run-for", "55s", "how long to start new jobs")
	f.Bool("linger", false, "look for new jobs until run-for is over")
	f.String("poll", "1s", "how often to look for new jobs, at least 50ms")
	f.Int("batch", 100, "how many jobs to start at once, at most")
	f.Int("concurrency", 4, "how many jobs run at once on this host, over all workers")
}

type worked struct {
	WorkerID string `json:"worker_id"`
	// Started is the number of attempts that started.
	Started int `json:"started"`
	// Finished is the number of attempts that finished.
	Finished int `json:"finished"`
	// Errors is the number of attempts that failed, for good or not.
	Errors int `json:"errors"`
	// Lost is the number of attempts whose result the worker couldn't save, because it had lost its lock.
	Lost int `json:"lost"`
	// TookMS is how long the worker ran.
	TookMS int64 `json:"took_ms"`
}

func (a *app) runWork(cmd *cobra.Command, i *instance, names, types []string, preferred []int) (done worker.Summary, err error) {
	_ = alert.Note(seen(i.Config), time.Now()) // if that fails, a database that is gone later looks new
	p, runners, unfit, err := a.newWorker(i, names, types)
	if err != nil {
		return done, err
	}
	if unfit == nil { // at its start, because the worker may run for long
		a.mailBack(i.Config, slices.Concat(names, types))
	}
	defer a.closeRunners(runners)
	if err := i.checkShards(p.Queues, preferred); err != nil {
		return done, err
	}
	p.Schedules = slices.DeleteFunc(slices.Clone(i.Schedules), func(s schedule.Schedule) bool {
		return !slices.ContainsFunc(p.Queues, func(q worker.Queue) bool { return q.Name == s.Queue })
	})
	p.Shards, p.Quarantine = preferred, a.quarantine(i, runners, p.ID)
	began := time.Now()
	done, err = worker.Run(cmd.Context(), p)
	took := time.Since(began)
	warnings := map[string]error{}
	for _, l := range runners.left {
		warnings[fmt.Sprintf("%s %s %s", leftNotice(p.Host), l.queue, l.name)] = fmt.Errorf("job type %s of %s is left out, and its jobs wait: %w", l.name, l.queue, l.err)
	}
	if done.Started > 0 { // not each hour if no job is affected
		for _, err := range cantRun(i.Config, names, types, runners.left) {
			warnings["can't run "+texts.Fingerprint(err.Error())] = err
		}
	}
	a.warnHourly(cmd.Context(), i, warnings)
	switch {
	case a.json:
		err = errors.Join(err, a.out.json(worked{
			WorkerID: p.ID, Started: done.Started, Finished: done.Finished, Errors: done.Errors, Lost: done.Lost, TookMS: took.Milliseconds(),
		}))
	case err == nil && a.out.isTerminal():
		see := ""
		if done.Errors > 0 {
			see = "; see: " + a.printed("hipq failures")
		}
		a.out.line("started %d, finished %d, errors %d, in %s%s", done.Started, done.Finished, done.Errors, took.Round(time.Millisecond), see)
	}
	if trouble, _ := schema.Diagnose(err); i.Mail && !a.byHand() && !a.verbose && trouble != schema.Misconfigured { // else mail fails too
		a.mailNews(cmd.Context(), i, p, took)
	}
	return done, errors.Join(err, unfit)
}

// asWorker opens the instance, and makes this process a worker for the job that the arguments name by its queue and its id.
func (a *app) asWorker(cmd *cobra.Command, args []string, do func(*instance, worker.Params, *runners, int64) error) error {
	id, err := parseID(args[1])
	if err != nil {
		return err
	}
	return a.open(cmd, brief, func(i *instance) error {
		p, runners, _, err := a.newWorker(i, args[:1], nil)
		if err != nil {
			return err
		}
		defer a.closeRunners(runners)
		return do(i, p, runners, id)
	})
}

// newWorker makes this process a worker for the config's queues, or for the named ones. The caller closes its runners.
// unfit is the error of the queues left out.
func (a *app) newWorker(i *instance, names, types []string) (p worker.Params, r *runners, unfit, err error) {
	p = worker.Params{
		ID: uuid.Must(uuid.NewV7()).String(), Options: i.Worker, Log: a.logger(), PID: os.Getpid(), ByHand: a.byHand(),
		Unkilled: func(workerID string, processes []string) {
			a.warn(fmt.Errorf("these processes of dead worker %s could not be ended: %s", workerID, strings.Join(processes, "; ")))
		},
	}
	if p.Host, err = os.Hostname(); err != nil {
		return p, nil, nil, fmt.Errorf("find out this host's name: %w", err)
	}
	r = a.newRunners(i, p.ID)
	p.Renewed, p.Close = r.guard.Extend, func() string { return a.closeRunners(r) }
	if p.Queues, unfit, err = i.workQueues(names, types, r); err != nil {
		a.closeRunners(r)
	}
	return p, r, unfit, err
}

// workQueues returns the config's queues, or the named ones, with handlers of the wanted types. It leaves out unusable
// queues: unfit says why, and err too if none remains. Types whose handlers can't be made are left out in runners.
func (i *instance) workQueues(names, types []string, runners *runners) (queues []worker.Queue, unfit, err error) {
	for _, name := range names {
		if _, err := i.Queue(name); err != nil {
			return nil, nil, unknown(err, name, i.QueueNames())
		}
	}
	found := map[string]bool{}
	for _, c := range i.Queues {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		if err := i.unfit[c.Name]; err != nil {
			unfit = errors.Join(unfit, fmt.Errorf("queue %s is left out: %w", c.Name, err))
			continue
		}
		q, err := queue.New(i.db, c.Options)
		if err != nil {
			return nil, nil, err
		}
		handlers, deciders := map[string]handler.Handler{}, map[string]handler.RetryHandler{}
		except := slices.DeleteFunc(slices.Sorted(maps.Keys(c.Handlers)), func(name string) bool { return name == job.AllTypes })
		for name, h := range c.Handlers {
			names := []string{name}
			if len(types) > 0 {
				names = slices.DeleteFunc(slices.Clone(types), func(t string) bool {
					served, _ := c.Serving(t)
					return served != name || t != name && slices.Contains(types, name)
				})
			}
			if len(names) == 0 {
				continue
			}
			made, decider, err := runners.both(h, c.RetryHandlers[name])
			for _, t := range names {
				found[t] = true
				if err != nil {
					runners.left = append(runners.left, leftType{c.Name, t, err})
					continue
				}
				handlers[t] = made
				if decider != nil {
					deciders[t] = decider
				}
			}
		}
		queues = append(queues, worker.Queue{Queue: q, Handlers: handlers, RetryHandlers: deciders, Except: except})
	}
	if len(queues) == 0 {
		return nil, nil, unfit
	}
	for _, t := range types {
		if !found[t] {
			return nil, nil, usagef("--type: no queue in %s has a handler for job type %q", i.File, t)
		}
	}
	return queues, unfit, nil
}

// logger logs to standard error with -v, else it is nil.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(lines{a.err}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// parseShards parses shard numbers and ranges, such as 0-3,7. An empty text is none.
func parseShards(text string) (numbers []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranges := strings.Cut(strings.TrimSpace(part), "-")
		if !ranges {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, wrong := strconv.ParseUint(last, 10, 16)
		if err != nil || wrong != nil || to < from || to >= policy.MaxShards {
			return nil, usagef("--shards: %.40q is neither a shard (0 to %d) nor a range of them; write 3, or 0-3, or 0-3,7", part, policy.MaxShards-1)
		}
		for n := int(from); n <= int(to); n++ {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

func (i *instance) checkShards(queues []worker.Queue, numbers []int) error {
	most := 0
	for _, q := range queues {
		most = max(most, q.Shards)
	}
	if len(numbers) > 0 && numbers[len(numbers)-1] >= most {
		return usagef("--shards: no queue in %s has a shard %d: they have %d at most, numbered from 0",
			i.File, numbers[len(numbers)-1], most)
	}
	return nil
}
