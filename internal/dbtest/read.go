package dbtest

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"testing"

	"github.com/hipq/hipq/internal/engine"
)

// querier is a database or one of its connections.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Read calls scan for each row of a query.
func Read(ctx context.Context, on querier, query string, args []any, scan func(*sql.Rows) error) error {
	err := engine.ReadOn(ctx, on, engine.Query{SQL: query, Args: args, Scan: engine.EachRow(scan)})
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// Rows returns a query's rows, with all cells as texts.
func Rows(ctx context.Context, on querier, query string, args ...any) (list [][]sql.NullString, err error) {
	err = Read(ctx, on, query, args, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		row, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		err = cmp.Or(err, rows.Scan(into...))
		list = append(list, row)
		return err
	})
	return list, err
}

// Pairs returns a query's rows of names and values.
func Pairs(ctx context.Context, on querier, query string) (map[string]string, error) {
	rows, err := Rows(ctx, on, query)
	all := map[string]string{}
	for _, row := range rows {
		all[row[0].String] = row[1].String
	}
	return all, err
}

// Reads is how many rows and index entries a connection to MySQL has read.
func Reads(t testing.TB, on querier) (n int64) {
	t.Helper()
	for _, read := range Must(Pairs(t.Context(), on, "SHOW SESSION STATUS LIKE 'Handler_read%'"))(t) {
		n += Must(strconv.ParseInt(read, 10, 64))(t)
	}
	return n
}
