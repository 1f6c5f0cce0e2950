package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// ErrInvalid is wrapped by errors about jobs with invalid fields.
var ErrInvalid = errors.New("not a valid job")

// Params is a job to enqueue. Only Type is required; zero values take the job type's defaults.
type Params struct {
	Type string
	// Data is any JSON or text except the word None, up to MaxDataBytes; empty means no data.
	Data string
	// Key is unique per type among the jobs that are not final, up to MaxKeyBytes; empty means a new UUID.
	Key string
	// At is when the job should run; zero means now.
	At time.Time
	// In is a delay from now by the database's clock, if At is zero.
	In time.Duration

	Priority       *int
	Timeout        time.Duration
	ThrottleFactor *int
	Windows        *Windows
	ShardKey       string
	// OnDuplicate applies if a job with this type and key isn't final.
	OnDuplicate OnDuplicate
}

// OnDuplicate says what to do if a job with the same type and key isn't final.
type OnDuplicate string

// The empty OnDuplicate is IgnoreDuplicate.
const (
	// IgnoreDuplicate leaves the existing job as it is and ignores the new one.
	IgnoreDuplicate OnDuplicate = "ignore"
	// ReplaceDuplicate overwrites the existing job, which keeps its ID, unless it has started.
	ReplaceDuplicate OnDuplicate = "replace"
	// RefuseDuplicate returns a DuplicateError with the existing job.
	RefuseDuplicate OnDuplicate = "error"
)

var onDuplicates = []OnDuplicate{IgnoreDuplicate, ReplaceDuplicate, RefuseDuplicate}

// Check returns ErrInvalid for a job that every queue refuses.
func (j Params) Check() error {
	if j.Type == AllTypes {
		return fmt.Errorf("%w: job_type %s stands for all types without a handler of their own; give the job's own", ErrInvalid, AllTypes)
	}
	if err := CheckType(j.Type); err != nil {
		return err
	}
	switch {
	case len(j.Data) > MaxDataBytes:
		return CheckSize(len(j.Data))
	case j.Data == None:
		return fmt.Errorf("%w: job_data %s stands for no data; leave it out, or write it differently", ErrInvalid, None)
	case !utf8.ValidString(j.Data):
		return fmt.Errorf("%w: job_data is not valid UTF-8", ErrInvalid)
	case len(j.Key) > MaxKeyBytes:
		return fmt.Errorf("%w: job_key has %d bytes; the maximum is %d", ErrInvalid, len(j.Key), MaxKeyBytes)
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
		return fmt.Errorf("%w: on_duplicate %q is not one of ignore, replace, error", ErrInvalid, j.OnDuplicate)
	case !j.At.IsZero() && (j.At.UTC().Year() < 1970 || j.At.UTC().Year() > 9998):
		return fmt.Errorf("%w: scheduled_run_time %s is not between 1970 and 9998", ErrInvalid, j.At.Format(time.RFC3339))
	}
	return nil
}

// ErrWeightless refuses a job with throttle factor 0 in a queue that requires a weight.
var ErrWeightless = fmt.Errorf("%w: with throttle_factor 0 it would bypass the throttle limit and groups, "+
	"which this queue refuses (allow_weightless: false)", ErrInvalid)

// CheckSize returns ErrInvalid if the data in a job's row are empty or too large.
func CheckSize(bytes int) error {
	if bytes == 0 {
		return fmt.Errorf("%w: job_data is empty; leave it out if there is none; did encoding it as JSON fail?", ErrInvalid)
	}
	if bytes > MaxDataBytes {
		return fmt.Errorf("%w: job_data has %d bytes; the maximum is %d; store it elsewhere and enqueue its location", ErrInvalid, bytes, MaxDataBytes)
	}
	return nil
}

// MaxSeconds is the longest timeout, ten years; more is a mistake.
const MaxSeconds = 10 * 366 * 24 * 3600

// maxInt is the maximum of the database's integer columns.
const maxInt = 1<<31 - 1

// MaxAttempt bounds the count of attempts.
const MaxAttempt = maxInt

// IsTimed says whether a job with all its defaults depends on the time; other jobs are due at once.
func (j Params) IsTimed() bool {
	return !j.At.IsZero() || j.In != 0 || len(*j.Windows) > 0 || j.OnDuplicate == ReplaceDuplicate
}

// WithKey fills in what doesn't depend on the type. The key is made before the transaction, so that a retried transaction
// finds the rows of an earlier try.
func (j Params) WithKey() (Params, error) {
	j.Data, j.ShardKey = cmp.Or(j.Data, None), cmp.Or(j.ShardKey, None)
	if j.Key == "" {
		// ordered by time, so that the key index grows at its end
		key, err := uuid.NewV7()
		if err != nil {
			return j, fmt.Errorf("make a job key: %w", err)
		}
		j.Key = key.String()
	}
	return j, nil
}

// WithDefaults fills in the type's defaults.
func (j Params) WithDefaults(t Type) Params {
	j.Priority = cmp.Or(j.Priority, &t.Priority)
	j.Timeout = cmp.Or(j.Timeout, t.Timeout)
	j.ThrottleFactor = cmp.Or(j.ThrottleFactor, &t.ThrottleFactor)
	j.Windows = cmp.Or(j.Windows, &t.Windows)
	return j
}

// ErrDuplicateKey is what a *DuplicateError matches.
var ErrDuplicateKey = errors.New("a job with this key is not final yet")

// DuplicateError names the refused job whose type and key another job has.
type DuplicateError struct {
	// Index is the position of the refused job.
	Index int
	// ID is the existing job's; 0 if it is an earlier one of the same call.
	ID  int64
	Key string
}

func (e *DuplicateError) Error() string {
	if e.ID == 0 {
		return fmt.Sprintf("%v: %q, twice in one call", ErrDuplicateKey, e.Key)
	}
	return fmt.Sprintf("%v: %q is job %d's", ErrDuplicateKey, e.Key, e.ID)
}

// Is makes the error match ErrDuplicateKey.
func (e *DuplicateError) Is(target error) bool { return target == ErrDuplicateKey }

// Added is the result of enqueueing a job.
type Added struct {
	ID  int64
	Key string
	// Duplicate says that a job with this type and key existed: ID is its ID, and nothing was added.
	Duplicate bool
	// Replaced says that the existing job was overwritten.
	Replaced bool
}
