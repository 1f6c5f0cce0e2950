package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/internal/engine"
)

// The tables of queues and job types are written by hipq alone. Somebody who may write them too could leave what no config
// could have said: in SQLite bytes for a text, a text for a number, either of any length. Such a row must stop no command.

// bounded is a column, and how many bytes a value of it can have: one that is longer isn't even read.
type bounded struct {
	name string
	most int
}

// boundedColumns are columns that are read together, and their list for SELECT.
type boundedColumns struct {
	columns []bounded
	list    string
}

func columnsOf(columns ...bounded) boundedColumns {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = fmt.Sprintf("CASE WHEN OCTET_LENGTH(%s) <= %d THEN %s END", c.name, c.most, c.name)
	}
	return boundedColumns{columns, strings.Join(list, ", ")}
}

// readRows gives each row of a query to f, its values as the driver has them; none of them is valid after f.
func readRows(ctx context.Context, from engine.Reader, query string, args []any, f func(row []any)) error {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		row, err := sqlx.SliceScan(rows)
		if err != nil {
			return err
		}
		f(row)
	}
	return rows.Err()
}

// rowsQuery is a query whose rows f gets, as readRows gives them.
func rowsQuery(query string, args []any, f func(row []any)) engine.Query {
	return engine.Query{SQL: query, Args: args, Scan: func(rows *sql.Rows) error {
		for rows.Next() {
			row, err := sqlx.SliceScan(rows)
			if err != nil {
				return err
			}
			f(row)
		}
		return nil
	}}
}

// cells are the values of a row. The first that can't be read is its flaw, and reads as nothing.
type cells struct {
	columns boundedColumns
	row     []any
	// noBytes says that a column which has bytes has no text.
	noBytes bool
	flaw    error
}

func (c *cells) text(i int) string {
	value, ok := asText(c.row[i])
	_, bytes := c.row[i].([]byte)
	switch {
	case !ok:
		c.wrong(i, fmt.Errorf("it is longer than %d bytes, or missing", c.columns.columns[i].most))
	case bytes && c.noBytes:
		c.wrong(i, errors.New("it has bytes, which are no text"))
	case !utf8.ValidString(value):
		c.wrong(i, errors.New("it is not valid UTF-8"))
	}
	return value
}

func (c *cells) number(i int) int64 {
	n, err := asNumber(c.text(i))
	if err != nil {
		c.wrong(i, err)
	}
	return n
}

func (c *cells) wrong(i int, err error) {
	if c.flaw == nil {
		c.flaw = fmt.Errorf("%s: %w", c.columns.columns[i].name, err)
	}
}
