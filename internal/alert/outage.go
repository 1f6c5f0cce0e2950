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

// overAfter is how long no tick may fail before the outage counts as over: otherwise an intermittent one would be said each
// time.
const overAfter = 2 * time.Minute

// Outage is what this host's ticks of one crontab line know of their failures. It is a small file in the user's cache,
// because the database can't be asked.
type Outage struct{ file string }

type state struct {
	// Since is when the outage began.
	Since time.Time `json:"since"`
	// Said is when it was last said.
	Said time.Time `json:"said"`
	// Over is since when no tick has failed; zero if the last one failed.
	Over time.Time `json:"over"`
	// Why is what was said: a word that identifies the reason, and the text that Ends returns.
	Why string `json:"why,omitempty"`
}

// OutageOf returns the outage with this key, which names a config and the part of it that a tick works on.
func OutageOf(key string) (*Outage, error) {
	file, err := cached("outage", key)
	return &Outage{file}, err
}

// cached is the path of a file in the user's cache. It fails if the cache is another user's, as under sudo.
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

// Goes records a failed tick; the outage began at from or earlier. It returns the beginning, and whether to say why: the
// reason's first word is new, or it was last said too long ago. Two ticks that fail at the same time may both say it.
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
		return s.Since, false, nil // nothing new
	}
	s.Over = time.Time{}
	return s.Since, say, o.write(s)
}

func reason(why string) string {
	word, _, _ := strings.Cut(why, " ")
	return word
}

// Ends records that a tick found the database. Once none has failed for two minutes, it returns the outage's beginning, end
// and last reason, only once; otherwise zeros.
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
		if errors.Is(err, fs.ErrNotExist) { // another tick said it
			err = nil
		}
		return since, over, "", err
	}
	_, why, _ = strings.Cut(s.Why, " ")
	return s.Since, s.Over, why, nil
}

// IsKnown says whether ticks have failed, and it wasn't said yet that this is over.
func (o *Outage) IsKnown() bool {
	s, err := o.read()
	return err == nil && !s.Since.IsZero()
}

// read returns the zero state if the file is missing or unreadable as JSON.
func (o *Outage) read() (s state, err error) {
	text, err := os.ReadFile(o.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return state{}, nil
	case err == nil && len(text) == 0: // the disk was full, so only the file's time could be recorded
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

// write replaces the file atomically, because another tick may read it.
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
	// A full disk may have room for an empty file, or in an existing file.
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

// Seen is when this host's ticks last found a database: the time of an empty file in the user's cache, which is readable
// without the database.
type Seen struct{ file string }

// SeenOf returns the Seen of the database with this key.
func SeenOf(key string) (*Seen, error) {
	file, err := cached("seen", key)
	return &Seen{file}, err
}

// Note records that the database was found. It may be repeated.
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

// Last is the last recorded time; zero if there is none.
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
