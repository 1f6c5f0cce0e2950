package handler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// Stream runs programs that each take many jobs, which saves a start per job. Each job is a line of JSON on stdin, as for
// Exec. The program answers each job with a line on stdout, in any order:
//
//	{"id": 7, "token": "…", "outcome": "finished|retry|failed|sent|release", "result": …, "error": …, "retry_after": "5m", "count": true}
//
// Before its first answer, it may say that it has started: {"ready": true}. The timeouts of its jobs begin then.
//
// The id, and the token if given, must be the job's. Lines without a leading brace, and stderr, are the log; each attempt
// keeps the last 16 KiB logged while it ran.
//
// A program starts when no running one has room for a job. The end of stdin tells it to end; it may also end by itself after
// any answer. If it ends without answering a job, the attempt fails. A job that it hadn't begun to read, or received only in
// part, goes to another program.
//
// After an unreadable line, or when a job must be stopped, the program gets no further jobs, but may answer those it has.
// When no job is left that may go on, it gets TERM and, after Grace, KILL. If all were answered, it first has Grace to end. A
// program that closes stdin or stdout and lives on is treated alike.
//
// A job that must be stopped ends within Grace. Its answer still counts if it says that the work is finished or sent, or failed
// for good. After half of it, the program gets TERM whatever other jobs it has; their errors name that job. Programs that keep ending without any answer, or don't start, are restarted ever more slowly. Until then,
// jobs are not begun, and their attempts don't count.
//
// A Stream serves the jobs of one queue, because it tells them apart by ID. It is safe for concurrent use. Close it when the
// worker has ended.
type Stream struct {
	Program
	// Processes is how many programs may run at once; below 1 means 1.
	Processes int
	// InFlight is how many jobs each program may have at once; below 1 means 1. Jobs that begin together arrive in any order.
	InFlight int
	// Ahead is how many more jobs a worker starts for each program, while jobs take less than 100 ms on average. They wait in the
	// Stream for the first program with room, so that it idles no longer than a pipe takes. Their timeouts begin then. If none has
	// room within a second, they go back to the queue, and the attempts don't count.
	Ahead int
	// StartTimeout is how long a program may take to say that it is ready, or to answer, before a job's timeout begins. 0 means
	// DefaultStartTimeout after a program of the stream has said so; before that, timeouts run from the beginning.
	StartTimeout time.Duration
	// MaxJobs is after how many jobs a program gets no more, and the next job starts another; 0 means no limit. MaxMemory is the same
	// for its resident memory, in bytes, as it is after a job; only on Linux.
	MaxJobs   int
	MaxMemory int64
	// RestartOn are files at whose change programs get no more jobs, as by a deployment.
	RestartOn []string
	// Log, if set, gets a warning when a program is replaced because of unreadable output.
	Log *slog.Logger

	mu        sync.Mutex
	talks     []*talk // with programs that take jobs
	starting  int     // programs being started
	closed    bool
	futile    int             // programs in a row that ended without any answer
	startAt   time.Time       // earliest next start
	lastEnd   string          // why the last of them ended
	note      string          // the beginning of the next program's first log
	announces bool            // a program has said that it is ready
	pace      time.Duration   // a mean of how long jobs take, of the latest most; 0 means unknown
	line      []chan struct{} // one for each job that wants room, in their order; the first job gets a value when there may be some
	ending    sync.WaitGroup
}

// DefaultStartTimeout is for the programs of a Stream without StartTimeout that say when they are ready.
const DefaultStartTimeout = time.Minute

// aheadBelow is how long jobs may take of which some are started ahead, and aheadWait how long these wait.
const aheadBelow, aheadWait = 100 * time.Millisecond, time.Second

// Room is how many jobs the stream can have now. A worker starts no more, and lets it move the end of an attempt's time.
func (s *Stream) Room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	each := max(1, s.InFlight)
	if s.pace > 0 && s.pace < aheadBelow {
		each += max(0, s.Ahead)
	}
	return max(1, s.Processes) * each
}

func (s *Stream) startTimeout() time.Duration { return cmp.Or(s.StartTimeout, DefaultStartTimeout) }

const hasEnded = "the worker has ended"

// Handle gives the job to a program and waits for its answer.
func (s *Stream) Handle(ctx context.Context, j *job.Job) (outcome job.Outcome) {
	begin := time.Now()
	defer func() { outcome.Ran = time.Since(begin) }()
	defer handling.Instead(ctx, func() {})() // the talk ends it if possible
	line := Message(j)
	for {
		t, refusal := s.take(ctx, j.Timeout)
		if t == nil {
			return refusal
		}
		begin = time.Now()
		outcome, unread := t.ask(ctx, j, line)
		s.giveBack(t, max(1, time.Since(begin)))
		if reason := s.worn(t); reason != "" {
			t.retire(reason)
		}
		if !unread {
			return outcome
		}
	}
}

// Close tells the programs to end, kills them after Grace, and waits for their end. No job may be running.
func (s *Stream) Close() {
	s.mu.Lock()
	s.closed = true
	talks := slices.Clone(s.talks)
	s.mu.Unlock()
	for _, t := range talks {
		t.retire(hasEnded)
	}
	s.ending.Wait()
}

// take finds a program with room for a job, or starts one; else it returns the outcome. Jobs that wait are served in their order.
func (s *Stream) take(ctx context.Context, timeout time.Duration) (*talk, job.Outcome) {
	place := make(chan struct{}, 1)
	t, mayStart, refusal := s.await(ctx, timeout, place)
	s.mu.Lock()
	s.line = slices.DeleteFunc(s.line, func(one chan struct{}) bool { return one == place })
	s.wake()
	s.mu.Unlock()
	if mayStart {
		return s.launch(ctx)
	}
	return t, refusal
}

// await waits for choose to say anything else than to wait. A job that waits gets its timeout afterwards.
func (s *Stream) await(ctx context.Context, timeout time.Duration, place chan struct{}) (t *talk, mayStart bool, refusal job.Outcome) {
	var late <-chan time.Time
	expire := handling.Of(ctx).Expire
	for {
		if ctx.Err() != nil {
			return nil, false, tryAgain(context.Cause(ctx).Error())
		}
		s.retireOutdated()
		t, mayStart, refusal = s.choose(time.Now(), place)
		if t != nil || mayStart || refusal.Verdict != "" {
			if late != nil && expire != nil {
				expire(timeout)
			}
			return t, mayStart, refusal
		}
		if late == nil && s.Ahead > 0 {
			if late = time.After(aheadWait); expire != nil {
				expire(timeout + aheadWait)
			}
		}
		select {
		case <-place:
		case <-ctx.Done():
		case <-late:
			s.mu.Lock()
			s.pace = aheadWait // so that the worker starts no more of them ahead
			s.mu.Unlock()
			return nil, false, job.Outcome{Verdict: job.NotBegun} // without an error
		}
	}
}

// choose returns the talk with the most room, or says that a program may start; if none of these, the job must wait. It
// refuses a job if no program runs and none may start yet, so that the job frees its slot.
func (s *Stream) choose(now time.Time, place chan struct{}) (t *talk, mayStart bool, refusal job.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.line, place) {
		s.line = append(s.line, place)
	}
	for _, one := range s.talks {
		if one.taken < max(1, s.InFlight) && (t == nil || one.taken < t.taken) {
			t = one
		}
	}
	free := len(s.talks)+s.starting < max(1, s.Processes)
	switch {
	case s.closed:
		return nil, false, tryAgain(hasEnded)
	case s.line[0] != place:
		t = nil // others came first
	case free && (t == nil || t.taken > 0) && !now.Before(s.startAt):
		s.starting++
		return nil, true, refusal
	case t != nil:
		t.taken++
	case free && len(s.talks)+s.starting == 0:
		refusal = s.pausing(fmt.Sprintf("not started: the last %d programs ended without an answer, the latest with: %s", s.futile, s.lastEnd))
	}
	return t, false, refusal
}

// pausing is the outcome of a job that no program takes before the next start.
func (s *Stream) pausing(why string) job.Outcome {
	return job.Outcome{Verdict: job.NotBegun, Error: why, RetryAfter: max(1, time.Until(s.startAt))}
}

func (s *Stream) launch(ctx context.Context) (t *talk, refusal job.Outcome) {
	t, err := s.open(ctx)
	failed := err != nil && ctx.Err() == nil
	if failed {
		s.wasFutile(err.Error())
	}
	s.mu.Lock()
	s.starting--
	switch {
	case failed:
		t, refusal = nil, s.pausing(err.Error())
	case err != nil:
		t, refusal = nil, tryAgain(err.Error())
	default:
		t.taken = 1
		s.talks = append(s.talks, t)
		s.ending.Add(1)
	}
	s.wake()
	s.mu.Unlock()
	if err == nil {
		t.begin()
	}
	return t, refusal
}

func (s *Stream) giveBack(t *talk, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.taken--
	t.given++
	if s.pace += (took - s.pace) / 4; s.pace == 0 {
		s.pace = 1
	}
	s.wake()
}

// retireOutdated gives no more jobs to programs that started before a change of the files.
func (s *Stream) retireOutdated() {
	if len(s.RestartOn) == 0 {
		return
	}
	s.mu.Lock()
	talks := slices.Clone(s.talks)
	s.mu.Unlock()
	now := s.stamps()
	for _, t := range talks {
		if !slices.Equal(now, t.stamps) {
			t.retire("a file of restart_on has changed")
		}
	}
}

func (s *Stream) stamps() []string {
	return texts.Map(s.RestartOn, func(file string) string {
		info, err := os.Stat(file)
		if err != nil {
			return err.Error()
		}
		target, _ := filepath.EvalSymlinks(file) // a deployment may only point a link elsewhere
		return fmt.Sprint(target, info.ModTime().UnixNano(), info.Size(), info.Mode())
	})
}

// wake has the first job that waits look for room. The caller holds the mutex.
func (s *Stream) wake() {
	if len(s.line) > 0 {
		select {
		case s.line[0] <- struct{}{}:
		default: // it is about to look
		}
	}
}

func (s *Stream) leave(t *talk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.talks = slices.DeleteFunc(s.talks, func(one *talk) bool { return one == t })
	s.wake()
}

// maxStartDelay is the longest delay of a start after programs that ended without any answer.
const maxStartDelay = 30 * time.Second

// wasFutile records that a program ended without any answer, or didn't start. The second in a row delays the next start by 1 s, and each
// further one doubles the delay. Then it wakes waiting jobs.
func (s *Stream) wasFutile(end string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastEnd = end
	if time.Now().Before(s.startAt) { // it began before the pause, beside others that ended too
		return
	}
	if s.futile++; s.futile > 1 {
		delay := min(time.Second<<min(s.futile-2, 10), maxStartDelay)
		s.startAt = time.Now().Add(delay)
		time.AfterFunc(delay, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.wake()
		})
	}
}

func (s *Stream) wasUseful() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.futile, s.startAt = 0, time.Time{}
}
