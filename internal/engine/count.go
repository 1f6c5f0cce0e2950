package engine

import (
	"context"
	"slices"
)

// CountedMost is how many rows CountSome counts at most, countedAmong among how many of the newest if no index serves it.
const (
	CountedMost  = 10_000
	countedAmong = 100_000
)

// Some are rows of a table that has an id, by a condition that begins with WHERE, or is empty.
type Some struct {
	Table, Hint, Where string
	Args               []any
	// Served says that finding a row costs no more than reading it: an index has them together, or all rows are meant.
	Served bool
}

// CountSome counts rows for somebody who waits for the answer: up to 10,000, and where no index serves it among the newest
// 100,000 of the table. all says that there are no others.
func (db *DB) CountSome(ctx context.Context, s Some) (n int, all bool, err error) {
	hint, where, args, whole := s.Hint, s.Where, slices.Clone(s.Args), true
	if !s.Served {
		var first, last int64
		err := db.QueryRowContext(ctx, "SELECT COALESCE((SELECT MIN(id) FROM "+s.Table+"), 0), COALESCE((SELECT MAX(id) FROM "+s.Table+"), 0)").Scan(&first, &last)
		if err != nil {
			return 0, false, err
		}
		if after := last - countedAmong; after >= first {
			hint, where, args, whole = db.ByID, where+" AND id > ?", append(args, after), false
		}
	}
	query := "SELECT COUNT(*) FROM (SELECT id FROM " + s.Table + " " + hint + " " + where + " LIMIT ?) AS counted"
	if err := db.GetContext(ctx, &n, query, append(args, CountedMost+1)...); err != nil {
		return 0, false, err
	}
	return min(n, CountedMost), whole && n <= CountedMost, nil
}
