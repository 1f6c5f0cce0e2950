package engine

// CatchUpBy makes CatchUp run this statement.
func (db *DB) CatchUpBy(statement string) { db.catchUp = statement }
