package alert

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// Cause is why ticks fail.
type Cause struct {
	// Word identifies the cause. Text is for people.
	Word, Text string
}

// spell is a time in which ticks failed for one cause.
type spell struct {
	Cause
	// Since is when it began.
	Since time.Time `json:"since"`
	// Said is when it was last said.
	Said time.Time `json:"said"`
	// Over is since when no tick has failed for this cause; zero if the last one did.
	Over time.Time `json:"over"`
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

// Goes records a tick that failed for a cause, at from or earlier. It returns since when ticks fail for it, and whether to say
// so: the cause is new, or was last said too long ago. Two ticks that fail at the same time may both say it.
func (o *Outage) Goes(from, now time.Time, why Cause, every time.Duration) (since time.Time, say bool, err error) {
	spells, err := o.read()
	if err != nil {
		return from, true, err
	}
	spells = slices.DeleteFunc(spells, func(s spell) bool { return s.Since.After(now) }) // the clock was set back
	ours := slices.IndexFunc(spells, func(s spell) bool { return s.Word == why.Word || s.Word == "" })
	changed := ours < 0 || !spells[ours].Over.IsZero()
	for n := range spells {
		if n != ours && spells[n].Over.IsZero() { // another cause has followed it
			spells[n].Over, changed = now, true
			if ours >= 0 && now.Sub(spells[ours].Over) >= overAfter { // and ours comes back after it
				spells[ours] = spell{Since: from}
			}
		}
	}
	if ours < 0 {
		spells, ours = append(spells, spell{Since: from}), len(spells)
	}
	s := &spells[ours]
	if lately := now.Sub(s.Said); lately < 0 || lately >= every {
		s.Said, say = now, true
	}
	if !say && !changed {
		return s.Since, false, nil // nothing new
	}
	s.Cause, s.Over = why, time.Time{}
	return s.Since, say, o.write(spells)
}

// Ends records that a tick succeeded. Once none has failed for two minutes, it returns the beginning, end and text of the
// last cause, only once; otherwise zeros.
func (o *Outage) Ends(now time.Time) (since, over time.Time, why string, err error) {
	spells, err := o.read()
	if err != nil || len(spells) == 0 {
		return since, over, "", err
	}
	ended := false
	for n := range spells {
		if s := &spells[n]; s.Over.IsZero() || s.Over.After(now) {
			s.Over, ended = now, true
		}
	}
	if ended {
		return since, over, "", o.write(spells)
	}
	last := slices.MaxFunc(spells, func(a, b spell) int { return a.Over.Compare(b.Over) })
	if now.Sub(last.Over) < overAfter {
		return since, over, "", nil
	}
	if err := os.Remove(o.file); err != nil {
		if errors.Is(err, fs.ErrNotExist) { // another tick said it
			err = nil
		}
		return since, over, "", err
	}
	return last.Since, last.Over, last.Text, nil
}

// IsKnown says whether ticks have failed, and it wasn't said yet that this is over.
func (o *Outage) IsKnown() bool {
	spells, err := o.read()
	return err == nil && len(spells) > 0
}

// read returns nothing if the file is missing or unreadable as JSON.
func (o *Outage) read() (spells []spell, err error) {
	text, err := os.ReadFile(o.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && len(text) == 0: // the disk was full, so only the file's time could be recorded
		info, err := os.Stat(o.file)
		if err != nil {
			return nil, err
		}
		return []spell{{Since: info.ModTime(), Said: info.ModTime()}}, nil
	case err == nil && json.Unmarshal(text, &spells) != nil:
		return nil, nil
	}
	return spells, err
}

// write replaces the file atomically, because another tick may read it.
func (o *Outage) write(spells []spell) error {
	text, err := json.Marshal(spells)
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

// Note records that this host's ticks found the database with this key: as the time of an empty file in the user's cache,
// which is readable without the database. It may be repeated.
func Note(key string, now time.Time) error {
	file, err := cached("seen", key)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Chtimes(file, now, now))
}

// Seen is the last time that Note recorded; zero if there is none.
func Seen(key string) (last time.Time, err error) {
	file, err := cached("seen", key)
	if err != nil {
		return last, err
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return last, nil
	case err != nil:
		return last, err
	}
	return info.ModTime(), nil
}
