package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

const (
	maxTried    = 1_000_000
	shownErrors = 5
)

type triedMany struct {
	Queue     string         `json:"queue"`
	Type      string         `json:"job_type"`
	Jobs      int            `json:"jobs"`
	AtOnce    int            `json:"at_once"`
	Outcomes  map[string]int `json:"outcomes"`
	Errors    []triedError   `json:"errors"`
	FirstMS   int64          `json:"first_ms"`
	TookMS    int64          `json:"took_ms"`
	PerSecond float64        `json:"per_second"`
}

type triedError struct {
	Job   int64  `json:"job_id"`
	Error string `json:"error"`
}

// tryMany runs a handler for jobs like j: as many at once as a stream takes, else one by one.
func (a *app) tryMany(ctx context.Context, h handler.Handler, t job.Type, j *job.Job, want triedMany) error {
	jobs := want.Jobs
	done := triedMany{Queue: j.Queue, Type: j.Type, AtOnce: min(jobs, want.AtOnce), Outcomes: map[string]int{}, Errors: []triedError{}}
	var mu sync.Mutex
	given := 0
	next := func() *job.Job {
		mu.Lock()
		defer mu.Unlock()
		if given == jobs || ctx.Err() != nil {
			return nil
		}
		one := *j
		one.ID += int64(given)
		one.AttemptToken = uuid.NewString()
		one.Token = one.AttemptToken
		given++
		return &one
	}
	began := time.Now()
	var all sync.WaitGroup
	for range done.AtOnce {
		all.Go(func() {
			for one := next(); one != nil; one = next() {
				ended := tryOne(ctx, h, t, one, nil)
				mu.Lock()
				done.add(one, ended.outcome, time.Since(began))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	done.TookMS, done.PerSecond = took.Milliseconds(), float64(done.Jobs)/took.Seconds()
	if err := a.printTryMany(done); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case done.Outcomes[string(job.TryAgain)]+done.Outcomes[string(job.Failed)] > 0:
		return errors.New("some attempts failed")
	}
	return nil
}

// add counts a job that ended; after is the time since the start.
func (d *triedMany) add(j *job.Job, o job.Outcome, after time.Duration) {
	if d.Jobs++; d.Jobs == 1 {
		d.FirstMS = after.Milliseconds()
	}
	d.Outcomes[string(o.Verdict)]++
	known := slices.ContainsFunc(d.Errors, func(e triedError) bool { return e.Error == o.Error })
	if o.Verdict.IsError() && !known && len(d.Errors) < shownErrors {
		d.Errors = append(d.Errors, triedError{j.ID, o.Error})
	}
}

func (a *app) printTryMany(d triedMany) error {
	if a.json {
		return a.out.json(d)
	}
	outcomes := texts.Map(slices.Sorted(maps.Keys(d.Outcomes)), func(verdict string) string {
		return fmt.Sprintf("%s %s", verdict, texts.Thousands(d.Outcomes[verdict]))
	})
	a.out.line("%s jobs, %s at once, in %s: %.1f a second; the first ended after %s", texts.Thousands(d.Jobs), texts.Thousands(d.AtOnce),
		time.Duration(d.TookMS)*time.Millisecond, d.PerSecond, time.Duration(d.FirstMS)*time.Millisecond)
	a.out.line("outcomes: %s", strings.Join(outcomes, ", "))
	for _, e := range d.Errors {
		a.out.line("error, first in job %d: %s", e.Job, safe(e.Error))
	}
	return nil
}
