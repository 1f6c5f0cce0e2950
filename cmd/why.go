package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/doctor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

func (a *app) aboutJob(do func(ctx context.Context, i *instance, q *queue.Queue, id int64) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		id, err := parseID(args[1])
		if err != nil {
			return err
		}
		return a.aboutQueue(cmd, patient, args[0], func(i *instance, q *queue.Queue) error { return do(cmd.Context(), i, q, id) })
	}
}

type explained struct {
	ID    int64     `json:"id"`
	Queue string    `json:"queue"`
	State job.State `json:"state"`
	// Shard is the job's shard, from 0; null until a worker takes the row in.
	Shard *int `json:"shard"`
	// Shards is the number of shards; null until a worker takes the row in.
	Shards *int `json:"shards"`
	// Reasons are all reasons that apply.
	Reasons []admin.Reason `json:"reasons"`
}

func (a *app) runWhy(ctx context.Context, i *instance, q *queue.Queue, id int64) error {
	why, err := admin.Of(q).Why(ctx, id, i.asker(q.Name))
	if err != nil {
		return err
	}
	for n := range why.Reasons {
		why.Reasons[n].Text = a.printed(why.Reasons[n].Text)
	}
	if a.json {
		j := why.Job.JSON()
		return a.out.json(explained{id, q.Name, j.State, j.Shard, j.Shards, why.Reasons})
	}
	for _, reason := range why.Reasons {
		a.out.line("%s", reason.Text)
	}
	return nil
}

// asker is what the config says of its workers of a queue.
func (i *instance) asker(queue string) admin.Asker {
	leftOut := map[string]string{}
	for _, l := range leftTypes(i.Config) {
		if l.queue == queue {
			leftOut[l.name] = atKey(l.err)
		}
	}
	return admin.Asker{
		Handled: i.handled(queue), LeftOut: leftOut, Concurrency: i.Worker.Concurrency, Crontab: doctor.CrontabLine("work", i.File),
		AheadMost: 20_000,
	}
}
