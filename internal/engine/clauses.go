package engine

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// Rows is the VALUES part of a multi-row insert: n times row, which is "(?,?,…)".
func Rows(row string, n int) string {
	return strings.Repeat(row+",", n-1) + row
}

// In is the list of an IN condition with n members.
func In(n int) string {
	return "(" + strings.Repeat("?,", n-1) + "?)"
}

// Args are values as parameters, for example of In.
func Args[T any](values []T) []any { return texts.Map(values, func(v T) any { return v }) }

// Upsert updates a row or inserts it. The first names, as many as keys says, are the row's key. The names must be constants.
func (tx *Tx) Upsert(ctx context.Context, table string, keys int, names []string, values []any) error {
	key, keyArgs, columns, args := names[:keys], values[:keys], names[keys:], values[keys:]
	update := "UPDATE " + table + " SET " + strings.Join(columns, " = ?, ") + " = ? WHERE " + strings.Join(key, " = ? AND ") + " = ?"
	insert := "INSERT INTO " + table + " (" + strings.Join(key, ", ") + ", " + strings.Join(columns, ", ") + ") VALUES " + In(len(key)+len(columns))
	// Twice, because another transaction may insert the row in between.
	for range 2 {
		if there, err := Changed(tx.ExecContext(ctx, update, append(slices.Clone(args), keyArgs...)...)); err != nil || there {
			return err
		}
		_, err := tx.ExecContext(ctx, insert, append(slices.Clone(keyArgs), args...)...)
		if !IsDuplicate(err) {
			return err
		}
	}
	return nil
}

// Changed says whether a statement found a row to change.
func Changed(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// Where is a condition on rows, built term by term. The zero Where has none.
type Where struct {
	terms []string
	Args  []any
}

// And adds a term with its parameters.
func (w *Where) And(term string, args ...any) {
	w.terms, w.Args = append(w.terms, term), append(w.Args, args...)
}

// Clone is a copy that gets further terms of its own.
func (w *Where) Clone() Where { return Where{slices.Clone(w.terms), slices.Clone(w.Args)} }

// Contains is the condition for an expression that contains a parameter literally: LIKE would interpret % and _. Case is ignored, on
// SQLite that of ASCII letters.
func Contains(expression string) string { return "INSTR(LOWER(" + expression + "), LOWER(?)) > 0" }

// Says selects rows whose error contains the text, as in Contains; an empty text selects all.
func (w *Where) Says(text string) {
	if text != "" {
		w.And("error <> 'NONE' AND "+Contains("error"), text) // rows without an error have NONE
	}
}

// Within selects rows with since <= column < until. A zero time is no bound.
func (w *Where) Within(column string, since, until time.Time) {
	if !since.IsZero() {
		w.And(column+" >= ?", At(since))
	}
	if !until.IsZero() {
		w.And(column+" < ?", At(until))
	}
}

// SQL is the clause after a space; empty if there is no condition.
func (w *Where) SQL() string {
	if len(w.terms) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.terms, " AND ")
}
