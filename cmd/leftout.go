package cmd

import (
	"github.com/hipq/hipq/internal/texts"
)

// leftOut is what a table may have left out, by its limit.
type leftOut struct {
	what          string
	listed, limit int
}

// printLeftOut says how many there are that a table has left out, if there are any: count counts all, or says that it has
// not.
func (a *app) printLeftOut(l leftOut, count func() (n int, all bool, err error)) error {
	if l.limit == 0 || l.listed < l.limit {
		return nil
	}
	n, all, err := count()
	switch {
	case err != nil:
		return err
	case n > l.listed && all:
		a.out.line("the newest %s of %s %s; --limit lists more", thousands(l.listed), thousands(n), l.what)
	case n > l.listed:
		a.out.line("the newest %s of at least %s %s; --limit lists more", thousands(l.listed), thousands(n), l.what)
	case !all:
		a.out.line("the newest %s of perhaps more %s; --limit lists more", thousands(l.listed), l.what)
	}
	return nil
}

// thousands is a number for people.
func thousands(n int) string { return texts.Thousands(int64(n)) }
