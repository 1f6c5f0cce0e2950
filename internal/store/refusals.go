package store

import "errors"

var (
	// ErrOptions is the error about options that no queue can have.
	ErrOptions = errors.New("queue options")
	// ErrNotFound is the error about a job that isn't there.
	ErrNotFound = errors.New("no such job")
	// ErrNotStarted says that the job has not been tried yet.
	ErrNotStarted = errors.New("the job has not been started")
	// ErrOtherAttempt says that the token is not that of the job's latest attempt.
	ErrOtherAttempt = errors.New("the token is of another attempt")
	// ErrStarted says that the job is running, or waits for its retry decision.
	ErrStarted = errors.New("the job has started")
	// ErrFinal says that the job is final.
	ErrFinal = errors.New("the job is final")
	// ErrLocked says that a worker has the job locked.
	ErrLocked = errors.New("a worker has the job locked")
	// ErrNotIngested says that the row was inserted by plain SQL.
	ErrNotIngested = errors.New("no worker has taken the job in yet")
	// ErrNoRoom is about the queue's limit, or its rate.
	ErrNoRoom = errors.New("the queue's limits leave no room for the job now")
)
