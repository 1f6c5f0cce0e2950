package workers

// Working is SQL for whether the worker of an id, an expression, has neither ended nor been declared dead.
func (r *Table) Working(id string) string {
	return "EXISTS (SELECT 1 FROM " + r.db.Workers() + " w " + r.db.SQL.ByKey + " WHERE w.id = " + id + " AND w.state = 'working')"
}

// Missing is SQL to find what dead workers have left: a join by their id, an expression, which takes the name w, and its
// condition. A worker is dead once its row says so or is gone, never because of a clock.
func (r *Table) Missing(id string) (join, condition string) {
	return "LEFT JOIN " + r.db.Workers() + " w " + r.db.SQL.ByKey + " ON w.id = " + id + " AND w.state = 'working'", "w.id IS NULL"
}
