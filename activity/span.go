package activity

import (
	"context"
	"database/sql"
	"strings"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// span is a range of ids. Lists of spans are sorted and don't overlap.
type span struct{ first, last int64 }

// spansMax is the maximum number of spans in a query.
const spansMax = 1000

func within(of []span) (condition string, args []any) {
	for _, s := range of {
		args = append(args, s.first, s.last)
	}
	return "(" + strings.Repeat("id BETWEEN ? AND ? OR ", len(of)-1) + "id BETWEEN ? AND ?)", args
}

// spans groups the unknown ids: each span has no known id, and lies within one of the given spans.
func spans(ids []int64, of []span, known map[int64]bool) (unknown []span) {
	for _, s := range of {
		joined := false
		for ; len(ids) > 0 && ids[0] <= s.last; ids = ids[1:] {
			switch {
			case known[ids[0]]:
				joined = false
			case joined:
				unknown[len(unknown)-1].last = ids[0]
			default:
				unknown, joined = append(unknown, span{ids[0], ids[0]}), true
			}
		}
	}
	return unknown
}

// ids are the ids of existing entries in the spans.
func (l *Log) ids(ctx context.Context, in engine.Reader, of []span) (ids []int64, err error) {
	condition, args := within(of)
	query := "SELECT id FROM " + l.db.Activity() + " " + l.db.SQL.ByID + " WHERE " + condition + " ORDER BY id"
	return ids, texts.Wrap(in.SelectContext(ctx, &ids, query, args...), "find activity")
}

// uncommitted are the ids of entries in the spans, including those of open transactions.
func (l *Log) uncommitted(ctx context.Context, of []span) ([]int64, error) {
	tx, err := l.db.SQL.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadUncommitted, ReadOnly: true})
	if err != nil {
		return nil, texts.Wrap(err, "find activity")
	}
	defer func() { _ = tx.Rollback() }()
	return l.ids(ctx, l.db.SQL.Join(tx), of)
}
