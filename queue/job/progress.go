package job

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxNoteChars is how much of a note on progress is kept, in characters.
const MaxNoteChars = 255

// Progress is how far an attempt has come, as its handler said while it worked. It changes nothing about the job.
type Progress struct {
	// Percent is from 0 to 100.
	Percent int
	// Note is what the handler was at; None if it didn't say.
	Note string
	// Attempt is the one that has said so; 0 is that none has said anything. Time is when that was written down.
	Attempt int
	Time    time.Time
}

// NewProgress is what a handler says of its progress: whole percent, rounded down, and the beginning of a note, with U+FFFD for
// what is no text. ok is false if the percent are not from 0 to 100.
func NewProgress(percent float64, note string) (p Progress, ok bool) {
	if !(percent >= 0 && percent <= 100) { // nor is NaN
		return Progress{}, false
	}
	const longest = MaxNoteChars * utf8.UTFMax
	note = strings.ReplaceAll(strings.ToValidUTF8(note[:min(len(note), longest)], "\uFFFD"), "\x00", "\uFFFD")
	if utf8.RuneCountInString(note) > MaxNoteChars {
		note = string([]rune(note)[:MaxNoteChars])
	}
	if note == "" {
		note = None
	}
	return Progress{Percent: int(percent), Note: note}, true
}

// String is the progress for people: 40 %, or 40 % (page 4 of 10).
func (p Progress) String() string {
	if p.Note == None || p.Note == "" {
		return fmt.Sprintf("%d %%", p.Percent)
	}
	return fmt.Sprintf("%d %% (%s)", p.Percent, p.Note)
}

// Reached is the progress of the job's current attempt, or of its last. ok is false if that has said nothing.
func (j *Job) Reached() (p Progress, ok bool) {
	return j.Progress, j.Progress.Attempt > 0 && j.Progress.Attempt == j.Attempt
}
