package cmd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/schema"
)

// gone is the error for a database that existed before and is missing now. An empty one from hipq init would be in the
// way when the disk is mounted again.
type gone struct {
	error
	config *config.Config
	last   time.Time
}

func (e gone) Unwrap() error { return e.error }

func (e gone) until() string { return "it was there until " + zonedTime(e.last, e.config.Location) }

func (e gone) where() string {
	if e.config.Database.Path != "" {
		return "is its disk mounted?"
	}
	return "does database.dsn name the right server, or is it being restored?"
}

func (e gone) hint() string {
	return e.until() + "; " + e.where() + " Only if the data is really gone: hipq init --yes creates an empty one"
}

// seen returns the note of when this user's ticks last found the config's database; nil if it can't be stored.
func seen(c *config.Config) *alert.Seen {
	where := cmp.Or(c.Database.Path, schema.WithoutPassword(c.Database.DSN)) // only SQLite has a path
	s, err := alert.SeenOf(where + "\x00" + c.Name)
	if err != nil {
		return nil
	}
	return s
}

// noteSeen notes that the database is there. If that fails, a database that is gone later looks new.
func noteSeen(c *config.Config) {
	if s := seen(c); s != nil {
		_ = s.Note(time.Now())
	}
}

// orGone returns gone if err means that a database that existed is missing, otherwise err.
func orGone(c *config.Config, err error) error {
	if s := seen(c); s != nil && errors.Is(err, schema.ErrAbsent) {
		if last, unread := s.Last(); unread == nil && !last.IsZero() {
			return gone{err, c, last}
		}
	}
	return err
}

// isAway reports whether err means that the database is unusable for now, or gone.
func (a *app) isAway(err error) bool {
	code, _ := a.diagnose(err)
	return code == exitTryLater || errors.As(err, new(gone))
}

// confirmEmpty asks on a terminal before init replaces a database that is gone. Without a terminal it refuses.
func (a *app) confirmEmpty(ctx context.Context, c *config.Config) error {
	err := connect(ctx, c, func(*instance) error { return nil })
	was, ok := errors.AsType[gone](err)
	switch {
	case !ok: // init creates the database, or reports what is wrong with it
		return nil
	case !a.onTerminal() || a.json:
		return err
	}
	return a.confirm(ctx, "the database is gone, "+was.until()+"; "+was.where()+" Create an empty one")
}
