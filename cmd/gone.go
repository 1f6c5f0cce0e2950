package cmd

import (
	"context"
	"errors"
	"time"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/schema"
)

// gone is the error of a database that is not there any more: what was never there wants hipq init, but of one that was there
// an init would make an empty one, which is in the way when the disk is mounted again.
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
	return "does database.dsn lead to the right server, is it being restored?"
}

func (e gone) hint() string {
	return e.until() + "; " + e.where() + " Only if the data are really gone: hipq init --yes makes an empty one"
}

// seen is when a tick of this user last found the config's database; nil where that can't be noted.
func seen(c *config.Config) *alert.Seen {
	where := c.Database.Path // of SQLite
	if where == "" {
		where = schema.WithoutPassword(c.Database.DSN)
	}
	s, err := alert.SeenOf(where + "\x00" + c.Name)
	if err != nil {
		return nil
	}
	return s
}

// noteSeen notes that the database is there. Where it can't, a database that is gone is one that was never there.
func noteSeen(c *config.Config) {
	if s := seen(c); s != nil {
		_ = s.Note(time.Now())
	}
}

// orGone is err, or gone if it means that there is no database where there was one.
func orGone(c *config.Config, err error) error {
	if s := seen(c); s != nil && errors.Is(err, schema.ErrAbsent) {
		if last, unread := s.Last(); unread == nil && !last.IsZero() {
			return gone{err, c, last}
		}
	}
	return err
}

// isAway says whether err means that the database is away for now: it can't be used, or is gone.
func (a *app) isAway(err error) bool {
	code, _ := a.diagnose(err)
	return code == exitTryLater || errors.As(err, new(gone))
}

// confirmEmpty asks on a terminal before an empty database replaces one that is gone. Elsewhere it refuses.
func (a *app) confirmEmpty(ctx context.Context, c *config.Config) error {
	err := connect(ctx, c, func(*instance) error { return nil })
	was, ok := errors.AsType[gone](err)
	switch {
	case !ok: // to make it, or to say what is wrong with it, is what init is for
		return nil
	case !a.onTerminal() || a.json:
		return err
	}
	return a.confirm(ctx, "the database is gone, "+was.until()+"; "+was.where()+" Make an empty one")
}
