package roster

// Working is SQL for whether the worker of an id, which is an expression, is working: it has neither ended nor been
// declared dead.
func (r *Roster) Working(id string) string {
	return "EXISTS (SELECT 1 FROM " + r.db.Workers() + " w " + r.db.ByKey + " WHERE w.id = " + id + " AND w.state = 'working')"
}

// Missing is SQL to find what is of workers that are no more: a join by their id, which is an expression, and the condition
// that goes with it. A worker is no more once its row says so or is gone, never because of what its clock says. The name w
// is taken.
func (r *Roster) Missing(id string) (join, condition string) {
	return "LEFT JOIN " + r.db.Workers() + " w " + r.db.ByKey + " ON w.id = " + id + " AND w.state = 'working'", "w.id IS NULL"
}
