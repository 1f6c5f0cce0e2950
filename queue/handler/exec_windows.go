package handler

import (
	"context"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/queue/job"
)

func (e *Exec) run(context.Context, *job.Job, []string, []byte) (out printed, end ending, err error) {
	return out, end, process.CanRun()
}
