package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// ErrInvalid is wrapped by the refusal of a job: a field is not what it may be.
var ErrInvalid = errors.New("not a valid job")

// Params is a job to enqueue. Only Type is required; what is nil or zero is the job type's default.
type Params struct {
	Type string
	// Data is any JSON or text but the word None, at most MaxDataBytes long; empty is no data.
	Data string
	// Key is unique per type among the jobs that are not final, at most MaxKeyBytes long; empty is a UUID.
	Key string
	// At is when it should run; zero is now. In counts from now by the database's clock, and is for when At is zero.
	At time.Time
	In time.Duration

	Priority       *int
	Timeout        time.Duration
	ThrottleFactor *int
	Windows        *Windows
	ShardKey       string
	// OnDuplicate says what happens if a job with its type and key is not final.
	OnDuplicate OnDuplicate
}

// OnDuplicate is what to do about a job whose type and key a job has that is not final.
type OnDuplicate string

// What to do. The empty OnDuplicate is KeepDuplicate.
const (
	// KeepDuplicate leaves the job that is there as it is; the new one is discarded.
	KeepDuplicate OnDuplicate = "keep"
	// ReplaceDuplicate puts the new one instead of the one that is there, under its id, unless that has started: then
	// it stays as it is.
	ReplaceDuplicate OnDuplicate = "replace"
	// RefuseDuplicate makes it an error, which names the job that is there.
	RefuseDuplicate OnDuplicate = "error"
)

var onDuplicates = []OnDuplicate{KeepDuplicate, ReplaceDuplicate, RefuseDuplicate}

// Check refuses what no queue would take: ErrInvalid, or ErrWindow.
func (j Params) Check() error {
	if err := CheckType(j.Type); err != nil {
		return err
	}
	switch {
	case len(j.Data) > MaxDataBytes:
		return CheckSize(len(j.Data))
	case j.Data == None:
		return fmt.Errorf("%w: job_data %s stands for no data; leave it out, or write it otherwise", ErrInvalid, None)
	case !utf8.ValidString(j.Data):
		return fmt.Errorf("%w: job_data is not valid UTF-8", ErrInvalid)
	case len(j.Key) > MaxKeyBytes:
		return fmt.Errorf("%w: job_key has %d bytes, allowed are %d", ErrInvalid, len(j.Key), MaxKeyBytes)
	case !utf8.ValidString(j.Key):
		return fmt.Errorf("%w: job_key %q is not valid UTF-8", ErrInvalid, j.Key)
	case strings.ContainsRune(j.Key, 0):
		return fmt.Errorf("%w: job_key %q has a control character, NUL, which a handler's environment can't have", ErrInvalid, j.Key)
	case len(j.ShardKey) > MaxKeyBytes || !utf8.ValidString(j.ShardKey):
		return fmt.Errorf("%w: shard_key is longer than %d bytes or not valid UTF-8", ErrInvalid, MaxKeyBytes)
	case j.Timeout < 0 || j.Timeout%time.Second != 0 || j.Timeout/time.Second > MaxSeconds:
		return fmt.Errorf("%w: timeout %s is not a number of whole seconds from 1 to %d", ErrInvalid, j.Timeout, MaxSeconds)
	case j.ThrottleFactor != nil && (*j.ThrottleFactor < 0 || *j.ThrottleFactor > maxInt):
		return fmt.Errorf("%w: throttle_factor %d is not from 0 to %d", ErrInvalid, *j.ThrottleFactor, maxInt)
	case j.Priority != nil && (*j.Priority < -maxInt || *j.Priority > maxInt):
		return fmt.Errorf("%w: priority %d is not from %d to %d", ErrInvalid, *j.Priority, -maxInt, maxInt)
	case j.OnDuplicate != "" && !slices.Contains(onDuplicates, j.OnDuplicate):
		return fmt.Errorf("%w: on_duplicate %q is none of keep, replace, error", ErrInvalid, j.OnDuplicate)
	case !j.At.IsZero() && (j.At.Year() < 1970 || j.At.Year() > 9998):
		return fmt.Errorf("%w: scheduled_run_time %s is not between 1970 and 9998", ErrInvalid, j.At.Format(time.RFC3339))
	}
	return nil
}

// ErrWeightless is the refusal of a job in a queue that takes none without weight.
var ErrWeightless = fmt.Errorf("%w: with throttle_factor 0 it would pass the queue's limits by, "+
	"which this queue refuses (allow_weightless: false)", ErrInvalid)

// CheckSize says whether a job's data may have so many bytes.
func CheckSize(bytes int) error {
	if bytes > MaxDataBytes {
		return fmt.Errorf("%w: job_data has %d bytes, allowed are %d; store it elsewhere and enqueue where it is", ErrInvalid, bytes, MaxDataBytes)
	}
	return nil
}

// MaxSeconds is the longest timeout, ten years: longer is a mistake.
const MaxSeconds = 10 * 366 * 24 * 3600

// maxInt is what the databases' columns hold.
const maxInt = 1<<31 - 1

// MaxAttempt is how far attempts are counted.
const MaxAttempt = maxInt

// IsTimed says whether the time matters of a job that has all of its defaults: one that is not is simply due at once.
func (j Params) IsTimed() bool {
	return !j.At.IsZero() || j.In != 0 || len(*j.Windows) > 0 || j.OnDuplicate == ReplaceDuplicate
}

// WithKey fills in what doesn't depend on the type. The key is made before any transaction, so that a transaction that is
// repeated finds what an earlier run of it may have inserted.
func (j Params) WithKey() (Params, error) {
	if j.Data == "" {
		j.Data = None
	}
	if j.ShardKey == "" {
		j.ShardKey = None
	}
	if j.Key == "" {
		// by time, so that the index of keys grows at its end
		key, err := uuid.NewV7()
		if err != nil {
			return j, fmt.Errorf("make a job key: %w", err)
		}
		j.Key = key.String()
	}
	return j, nil
}

// WithDefaults fills in what the job leaves to its type.
func (j Params) WithDefaults(t Type) Params {
	if j.Priority == nil {
		j.Priority = &t.Priority
	}
	if j.Timeout == 0 {
		j.Timeout = t.Timeout
	}
	if j.ThrottleFactor == nil {
		j.ThrottleFactor = &t.ThrottleFactor
	}
	if j.Windows == nil {
		j.Windows = &t.Windows
	}
	return j
}

// ErrDuplicateKey is what a *DuplicateError is, for jobs with job.RefuseDuplicate.
var ErrDuplicateKey = errors.New("a job with this key is not final yet")

// DuplicateError says which of the jobs to enqueue has the type and key of one that is not final.
type DuplicateError struct {
	// Index is which of the jobs has the key.
	Index int
	// ID is the job that is there; 0 if that is an earlier one of the jobs.
	ID  int64
	Key string
}

func (e *DuplicateError) Error() string {
	if e.ID == 0 {
		return fmt.Sprintf("%v: %q, twice in one call", ErrDuplicateKey, e.Key)
	}
	return fmt.Sprintf("%v: %q is job %d's", ErrDuplicateKey, e.Key, e.ID)
}

// Is makes it ErrDuplicateKey.
func (e *DuplicateError) Is(target error) bool { return target == ErrDuplicateKey }

// Added says whether a new job was added, and its id.
type Added struct {
	ID  int64
	Key string
	// Duplicate says that a job with this type and key was there and not final: ID is that job's, and nothing was added.
	Duplicate bool
	// Replaced says that the job that was there has become what the new one was to be.
	Replaced bool
}
