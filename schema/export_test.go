package schema

// QueueSteps are the statements of the versions of a queue's table, as Migrate runs them.
func (db *DB) QueueSteps(queue string) ([][]string, error) {
	units, err := db.units([]Queue{{Name: queue}})
	if err != nil {
		return nil, err
	}
	return db.steps(units[1])
}

// ChangeOrder are the statements that give a table another order.
func (db *DB) ChangeOrder(table string, from, to Order) []string { return db.setOrder(table, from, to) }
