package engine

import (
	"context"
	"database/sql"
	"fmt"
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

// Is adds a term for a value, unless that is zero: it then selects all.
func Is[T comparable](w *Where, term string, value T) {
	if value != *new(T) {
		w.And(term, value)
	}
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

// preparedRows is the number of rows in a prepared insert. It is fixed, so that a connection keeps one statement for each
// kind of row.
const preparedRows = 50

// Insert is a multi-row insert.
type Insert struct {
	Table, Columns string
	// Row is one row's parameters: "(?,?,…)".
	Row string
	// Args are the parameters of all N rows.
	Args []any
	N    int
	// Whole inserts all rows in one statement, so that other transactions can't interleave.
	Whole bool
}

func (i Insert) statement(rows int) string {
	return "INSERT INTO " + i.Table + " (" + i.Columns + ") VALUES " + Rows(i.Row, rows)
}

func (i *Insert) cut(n int) []any {
	per := len(i.Args) / i.N
	args := i.Args[:n*per]
	i.Args, i.N = i.Args[n*per:], i.N-n
	return args
}

// Insert inserts rows, as Write does.
func (tx *Tx) Insert(ctx context.Context, i Insert) error {
	if err := tx.insertPrepared(ctx, &i, func(sql.Result, int) error { return nil }); err != nil || i.N == 0 {
		return err
	}
	return tx.Write(ctx, i.statement(i.N), i.Args...)
}

// Undoing rolls back what do has done if it fails with a duplicate. A server undoes such a statement itself. But a Galera
// node (MariaDB 10.11.19, without a binary log) still replicates the rows before the duplicate when the transaction commits.
// The nodes then differ, or one is evicted.
func (tx *Tx) Undoing(ctx context.Context, do func() error) error {
	if err := tx.Write(ctx, "SAVEPOINT hipq"); err != nil {
		return err
	}
	err := do()
	if IsDuplicate(err) {
		if _, failed := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT hipq"); failed != nil {
			return failed
		}
	}
	return err
}

// InsertIDs inserts rows and returns their ids; with an error, the ids of the first rows, which are inserted nevertheless.
// With Dialect.IDsByKey it takes only one row.
func (tx *Tx) InsertIDs(ctx context.Context, d Dialect, i Insert) (ids []int64, err error) {
	if err := tx.readIDStep(ctx, d, i.N); err != nil {
		return nil, err
	}
	note := func(res sql.Result, n int) error {
		some, err := tx.insertedIDs(d, res, n)
		ids = append(ids, some...)
		return err
	}
	if err := tx.insertPrepared(ctx, &i, note); err != nil || i.N == 0 {
		return ids, err
	}
	res, err := tx.ExecContext(ctx, i.statement(i.N), i.Args...)
	if err != nil {
		return ids, err
	}
	return ids, note(res, i.N)
}

// insertPrepared inserts the rows that fill prepared statements, if the connection keeps any.
func (tx *Tx) insertPrepared(ctx context.Context, i *Insert, note func(res sql.Result, n int) error) error {
	if !tx.keeps || i.Whole {
		return nil
	}
	statement := i.statement(preparedRows)
	for i.N >= preparedRows {
		res, err := tx.on.ExecContext(ctx, statement, i.cut(preparedRows)...)
		if err != nil {
			return err
		}
		if err := note(res, preparedRows); err != nil {
			return err
		}
	}
	return nil
}

// readIDStep reads the distance between the new rows' ids. An application's connection may have its own step.
func (tx *Tx) readIDStep(ctx context.Context, d Dialect, n int) error {
	switch {
	case n == 1 || tx.idStep > 0:
		return nil
	case d.idStep == "":
		tx.idStep = 1
		return nil
	}
	return texts.Wrap(tx.Read(ctx, Query{SQL: d.idStep, Scan: Row(&tx.idStep)}), "read the step of new ids")
}

// insertedIDs returns the ids of one multi-row insert, in the order of its n rows.
func (tx *Tx) insertedIDs(d Dialect, res sql.Result, n int) ([]int64, error) {
	id, err := res.LastInsertId()
	if err != nil {
		return nil, fmt.Errorf("read the new ids: %w", err)
	}
	if !d.lastIDIsFirst {
		id -= int64(n-1) * tx.idStep
	}
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = id + int64(i)*tx.idStep
	}
	return ids, nil
}
