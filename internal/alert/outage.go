package alert

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/internal/files"
)

// overAfter is how long no tick must have failed before it is said to be over: what comes and goes would be said each time.
const overAfter = 2 * time.Minute

// Outage is what this host's ticks of one crontab line know of their failing: a small file in the user's cache, because the database
// can't be asked.
type Outage struct{ file string }

type state struct {
	// Since is when it began, Said when that was said last. Over is since when no tick has failed; zero if the last one did.
	Since time.Time `json:"since"`
	Said  time.Time `json:"said"`
	Over  time.Time `json:"over"`
	// Why is what was said: a word that tells it from another reason, and what Ends gives.
	Why string `json:"why,omitempty"`
}

// OutageOf is the outage of those that have this key: a config, and what of it a tick works.
func OutageOf(key string) (*Outage, error) {
	file, err := cached("outage", key)
	return &Outage{file}, err
}

// cached is the file in the user's cache that is about what of this key. Under sudo the cache may be another user's: that is none.
func cached(what, key string) (string, error) {
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "hipq")
		err = files.CheckFolder(cache)
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, what+"-"+uuid.NewSHA1(uuid.NameSpaceURL, []byte(key)).String()), nil
}

// Goes notes that a tick failed, at the latest from a time on, and says since when they do, and whether this one should say why: it is
// another reason, by its first word, or was last said so long ago. Two that fail at the same time may both say it.
func (o *Outage) Goes(from, now time.Time, why string, every time.Duration) (since time.Time, say bool, err error) {
	s, err := o.read()
	if err != nil {
		return from, true, err
	}
	if s.Since.IsZero() || s.Since.After(now) {
		s = state{Since: from}
	}
	if lately := now.Sub(s.Said); lately < 0 || lately >= every || reason(why) != reason(s.Why) {
		s.Said, s.Why, say = now, why, true
	}
	if !say && s.Over.IsZero() {
		return s.Since, false, nil // nothing is new
	}
	s.Over = time.Time{}
	return s.Since, say, o.write(s)
}

func reason(why string) string {
	word, _, _ := strings.Cut(why, " ")
	return word
}

// Ends notes that a tick has found the database. When none has failed for two minutes it says once from when to when they did, and why
// last; else these are zero.
func (o *Outage) Ends(now time.Time) (since, over time.Time, why string, err error) {
	s, err := o.read()
	if err != nil || s.Since.IsZero() {
		return since, over, "", err
	}
	if s.Over.IsZero() || s.Over.After(now) {
		s.Over = now
		return since, over, "", o.write(s)
	}
	if now.Sub(s.Over) < overAfter {
		return since, over, "", nil
	}
	if err := os.Remove(o.file); err != nil {
		if errors.Is(err, fs.ErrNotExist) { // another has said it
			err = nil
		}
		return since, over, "", err
	}
	_, why, _ = strings.Cut(s.Why, " ")
	return s.Since, s.Over, why, nil
}

// read is the zero state where there is no file, or none that can be understood.
func (o *Outage) read() (s state, err error) {
	text, err := os.ReadFile(o.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return state{}, nil
	case err == nil && len(text) == 0: // the disk was full: the file's time is all that could be noted
		info, err := os.Stat(o.file)
		if err != nil {
			return state{}, err
		}
		return state{Since: info.ModTime(), Said: info.ModTime()}, nil
	case err == nil && json.Unmarshal(text, &s) != nil:
		return state{}, nil
	}
	return s, err
}

// write replaces the file, for another may read it.
func (o *Outage) write(s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.file), 0o700); err != nil {
		return err
	}
	text = append(text, '\n')
	if err = files.Write(o.file, text, 0o600, os.Rename); err == nil {
		return nil
	}
	// a full disk may have room for an empty file, or in a file that is there
	f, failed := os.OpenFile(o.file, os.O_CREATE|os.O_WRONLY, 0o600)
	if failed != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Truncate(int64(len(text)))
	} else if info, unread := f.Stat(); unread == nil && info.Size() == 0 {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Seen is when this host's ticks last found a database: the time of an empty file in the user's cache, which is there when the
// database is not.
type Seen struct{ file string }

// SeenOf is that of the database with this key.
func SeenOf(key string) (*Seen, error) {
	file, err := cached("seen", key)
	return &Seen{file}, err
}

// Note notes that the database is there. It may be repeated.
func (s *Seen) Note(now time.Time) error {
	err := os.Chtimes(s.file, now, now)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(s.file, os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Chtimes(s.file, now, now))
}

// Last is when it was noted last; zero if it never was.
func (s *Seen) Last() (time.Time, error) {
	info, err := os.Stat(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
