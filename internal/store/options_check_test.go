package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

func TestOptionsThatCannotBe(t *testing.T) {
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails")
	typed := func(change func(*job.Type)) func(*queue.Options) {
		return func(o *queue.Options) { change(&o.Types[0]) }
	}
	retry := func(change func(*job.RetryPolicy)) func(*queue.Options) {
		return typed(func(t *job.Type) { change(&t.Retry) })
	}
	for says, change := range map[string]func(*queue.Options){
		"timeout is 0 (DefaultType":    typed(func(t *job.Type) { *t = job.Type{Name: "send"} }),
		`job type "send" is listed tw`: func(o *queue.Options) { o.Types[1].Name = "send" },
		"job_type is missing":          typed(func(t *job.Type) { t.Name = "" }),
		"timeout 1.5s is not":          typed(func(t *job.Type) { t.Timeout = 1500 * time.Millisecond }),
		"timeout -1s is not":           typed(func(t *job.Type) { t.Timeout = -time.Second }),
		"throttle_factor -1":           typed(func(t *job.Type) { t.ThrottleFactor = -1 }),
		"concurrency -1":               typed(func(t *job.Type) { t.Concurrency = -1 }),
		"0 attempts":                   retry(func(p *job.RetryPolicy) { *p = job.RetryPolicy{} }),
		`backoff "linear" is neither`:  retry(func(p *job.RetryPolicy) { p.Backoff = "linear" }),
		"grows exponentially":          retry(func(p *job.RetryPolicy) { p.Backoff, p.MaxDelay = job.Exponential, 0 }),
		"jitter 7 is not":              retry(func(p *job.RetryPolicy) { p.Jitter = 7 }),
		"delay of -1s":                 retry(func(p *job.RetryPolicy) { p.Delay = -time.Second }),
		"Concurrency -1":               func(o *queue.Options) { o.Concurrency = -1 },
		"5 starts per 0s":              func(o *queue.Options) { o.Rate = job.Rate{Starts: 5} },
		"0 starts per 1s":              func(o *queue.Options) { o.Rate = job.Rate{Per: time.Second} },
		`Order "fifo" is neither`:      func(o *queue.Options) { o.Order = "fifo" },
		`PriorityOrder "up" is`:        func(o *queue.Options) { o.PriorityOrder = "up" },
		"DefaultPriority":              func(o *queue.Options) { o.DefaultPriority = new(1 << 40) },
		"DefaultTimeout":               func(o *queue.Options) { o.DefaultTimeout = -time.Second },
		"DefaultRetry":                 func(o *queue.Options) { o.DefaultRetry = new(job.RetryPolicy{}) },
		"KeepFinished -24h0m0s":        func(o *queue.Options) { o.KeepFinished = -24 * time.Hour },
		"KeepFailed 500ms":             func(o *queue.Options) { o.KeepFailed = time.Second / 2 },
		`By "customer" is neither`:     func(o *queue.Options) { o.ThrottleGroups = &job.ThrottleGroups{By: "customer"} },
		"value of 247 bytes": func(o *queue.Options) {
			o.ThrottleGroups = &job.ThrottleGroups{By: "data.url", Limits: map[string]int{strings.Repeat("x", 247): 1}}
		},
	} {
		o := options()
		change(&o)
		_, err := queue.Open(t.Context(), db, o)
		ensure(t, errors.Is(err, queue.ErrOptions) && strings.Contains(err.Error(), says), "%v, want %q", err, says)
	}
}
