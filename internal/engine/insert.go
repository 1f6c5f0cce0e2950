package engine

import (
	"context"
	"database/sql"
	"fmt"
)

// preparedRows is how many rows a prepared insert has. All have the same number, so that a connection keeps one statement
// for each kind of row.
const preparedRows = 50

// Insert is a multi-row insert.
type Insert struct {
	Table, Columns string
	// Row is one row's parameters: "(?,?,…)".
	Row string
	// Args are those of all rows, of which there are N.
	Args []any
	N    int
	// Whole makes it one statement: fewer steps, in which others can come between.
	Whole bool
}

func (i Insert) statement(rows int) string {
	return "INSERT INTO " + i.Table + " (" + i.Columns + ") VALUES " + Rows(i.Row, rows)
}

// cut takes the first n rows.
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

// Undoing undoes what do has done if that is refused for a duplicate. A server does so by itself, for a statement; but a node of
// a Galera cluster (MariaDB 10.11.19, without a binary log) then still sends the rows that came before the duplicate, when the
// transaction commits: so that the nodes differ, or one of them is put out.
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

// InsertIDs inserts rows, and gives their ids: in an error, those of the first rows that are in anyway. Where
// Dialect.IDsByKey it is for one row alone.
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

// insertPrepared inserts as many rows as there are in full prepared statements, where the connection keeps such.
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

// readIDStep reads how far the ids of n rows will lie apart. The connection may be an application's, which has its own step.
func (tx *Tx) readIDStep(ctx context.Context, d Dialect, n int) error {
	switch {
	case n == 1 || tx.idStep > 0:
		return nil
	case d.idStep == "":
		tx.idStep = 1
		return nil
	}
	if err := tx.Read(ctx, Query{SQL: d.idStep, Scan: Row(&tx.idStep)}); err != nil {
		return fmt.Errorf("read the step of new ids: %w", err)
	}
	return nil
}

// insertedIDs gives the ids of the n rows of one multi-row insert, in the order of its rows.
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
