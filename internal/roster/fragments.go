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

// MissingAt is Missing, and takes those too whose lock is over at a time, the join's parameter: they are dead, although
// nobody has found them yet.
func (r *Roster) MissingAt(id string) (join, condition string) {
	join, condition = r.Missing(id)
	return join + " AND w.lock_until > ?", condition
}

// Known is SQL to tell who the worker of an id, which is an expression, is or was: a join under the name d, whose host and
// pid are NULL for one that is not known any more.
func (r *Roster) Known(id string) (join string) {
	return "LEFT JOIN " + r.db.Workers() + " d " + r.db.ByKey + " ON d.id = " + id
}
