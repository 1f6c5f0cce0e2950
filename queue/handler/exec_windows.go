package handler

import (
	"context"
	"syscall"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/queue/job"
)

func (e *Exec) run(context.Context, *job.Job, []byte) (out printed, status syscall.WaitStatus, err error) {
	return out, status, process.CanRun()
}
