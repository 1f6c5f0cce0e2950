package schema

import (
	"context"
	"fmt"
)

// Owned are the queues of each instance that has tables in the database, by the instance's name.
func (db *DB) Owned(ctx context.Context) (map[string][]string, error) {
	var rows []struct{ Instance, Queue string }
	if err := db.SQL.SelectContext(ctx, &rows, "SELECT DISTINCT instance, queue FROM "+ownersTable+" ORDER BY 1, 2"); err != nil {
		return nil, fmt.Errorf("read the owners of the tables: %w", err)
	}
	owned := map[string][]string{}
	for _, r := range rows {
		if owned[r.Instance] == nil {
			owned[r.Instance] = []string{}
		}
		if r.Queue != noQueue {
			owned[r.Instance] = append(owned[r.Instance], r.Queue)
		}
	}
	return owned, nil
}
