package alert

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

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
