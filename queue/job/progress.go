package job

import (
	"cmp"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/texts"
)

// MaxNoteChars is the longest stored progress note, in characters.
const MaxNoteChars = 255

// Progress is what a running handler reported. It doesn't affect the job.
type Progress struct {
	// Percent is from 0 to 100.
	Percent int
	// Note says what the handler was doing; None if it didn't say.
	Note string
	// Attempt reported the progress; 0 means that none was reported.
	Attempt int
	// Time is when it was stored.
	Time time.Time
}

// NewProgress rounds the percentage down, truncates the note, and replaces invalid text by U+FFFD. ok is false if percent
// isn't from 0 to 100.
func NewProgress(percent float64, note string) (p Progress, ok bool) {
	if !(percent >= 0 && percent <= 100) { // also refuses NaN
		return Progress{}, false
	}
	const longest = MaxNoteChars * utf8.UTFMax
	note = texts.Clean(note[:min(len(note), longest)])
	if utf8.RuneCountInString(note) > MaxNoteChars {
		note = string([]rune(note)[:MaxNoteChars])
	}
	return Progress{Percent: int(percent), Note: cmp.Or(note, None)}, true
}

// String returns for example "40 %", or "40 % (page 4 of 10)".
func (p Progress) String() string {
	if p.Note == None || p.Note == "" {
		return fmt.Sprintf("%d %%", p.Percent)
	}
	return fmt.Sprintf("%d %% (%s)", p.Percent, p.Note)
}

// Reached returns the progress of the job's latest attempt. ok is false if that has reported none.
func (j *Job) Reached() (p Progress, ok bool) {
	return j.Progress, j.Progress.Attempt > 0 && j.Progress.Attempt == j.Attempt
}
