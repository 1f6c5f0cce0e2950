package engine

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/hipq/hipq/internal/texts"
)

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
