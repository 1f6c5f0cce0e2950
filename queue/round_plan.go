package queue

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Plan asks the engine how it would find the due jobs of a type, without doing so.
func (q Rounds) Plan(ctx context.Context, jobType string) (rounds.Plan, error) {
	p := rounds.Plan{Index: q.table + "$" + schema.ClaimIndex}
	query := q.rangesQuery(job.StatusAvailable, []*indexRange{{part: partMain, jobType: jobType, size: 100}}, nil)
	query.SQL = q.db.Explain + query.SQL
	var steps []string
	query.Scan = func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		for rows.Next() {
			texts, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
			for i := range into {
				into[i] = &texts[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			var cells []string
			for i, text := range texts {
				// of MySQL it is a column of its own, of SQLite a part of the only text
				p.Walks = p.Walks || columns[i] == "key" && text.String == p.Index ||
					columns[i] == "detail" && strings.Contains(text.String, " INDEX "+p.Index+" ")
				if text.String != "" {
					cells = append(cells, text.String)
				}
			}
			steps = append(steps, strings.Join(cells, " "))
		}
		return nil
	}
	if err := q.db.Read(ctx, query); err != nil {
		return p, fmt.Errorf("explain how due jobs of %s are found: %w", q.Name, err)
	}
	p.Text = strings.Join(steps, "; ")
	p.Sorts = strings.Contains(p.Text, "filesort") || strings.Contains(p.Text, "TEMP B-TREE")
	return p, nil
}
