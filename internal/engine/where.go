package engine

import (
	"strings"
	"time"
)

// Where is a condition that rows meet, put together term by term. The zero Where is none.
type Where struct {
	terms []string
	Args  []any
}

// And adds a term, with its parameters.
func (w *Where) And(term string, args ...any) {
	w.terms, w.Args = append(w.terms, term), append(w.Args, args...)
}

// Says takes rows whose error contains a text, as it is written; an empty one takes all.
func (w *Where) Says(text string) {
	if text != "" {
		// LIKE would take % and _ for more than they are, and without an error a row has the word for none
		w.And("error <> 'NONE' AND INSTR(error, ?) > 0", text)
	}
}

// Within takes rows whose time, in a column, is at since or later, and before until. A zero time doesn't bound.
func (w *Where) Within(column string, since, until time.Time) {
	if !since.IsZero() {
		w.And(column+" >= ?", At(since))
	}
	if !until.IsZero() {
		w.And(column+" < ?", At(until))
	}
}

// SQL is the clause, with a space before it; empty if there is no condition.
func (w *Where) SQL() string {
	if len(w.terms) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.terms, " AND ")
}
