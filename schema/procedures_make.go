package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// ErrNoProcedures means that the user may not create the stored procedures. All else works without them.
var ErrNoProcedures = errors.New("the stored procedures are left out")

// ErrRightsLost means that the procedures were replaced, but some callers lost their rights. On MySQL, replacing a
// procedure drops its rights, and this user could not restore them.
var ErrRightsLost = errors.New("grant the rights to call the stored procedures again")

// stored is a procedure or a view in the database. Text has its mark; that of a view is empty without the right to read it.
// Definer is the user that created it.
type stored struct{ Name, Text, Definer string }

// outdated returns the procedures, or the views, that are missing, of another version, or unusable, as without their definer. It
// refuses one that is not hipq's. there are those that exist and that this user can see, by name.
func (db *DB) outdated(ctx context.Context, what string, list []object) (outdated []object, there map[string]stored, err error) {
	query := "SELECT name, sql AS text, '' AS definer FROM sqlite_master WHERE type IN ('view', 'table') AND name IN "
	switch {
	case what == procedureKind:
		query = "SELECT routine_name AS name, routine_comment AS text, definer AS definer FROM information_schema.routines" +
			" WHERE routine_schema = DATABASE() AND routine_type = 'PROCEDURE' AND routine_name IN "
	case db.SQL.Engine == engine.MySQL.Engine:
		query = "SELECT table_name AS name, view_definition AS text, definer AS definer FROM information_schema.views WHERE table_schema = DATABASE() AND table_name IN "
	}
	var rows []stored
	names := texts.Map(list, func(o object) any { return o.name })
	if err := db.SQL.SelectContext(ctx, &rows, query+engine.In(len(names)), names...); err != nil {
		return nil, nil, fmt.Errorf("look for the %ss: %w", what, err)
	}
	there = map[string]stored{}
	for _, r := range rows {
		there[strings.ToLower(r.Name)] = r
	}
	orphaned := map[string]bool{} // by definer
	for _, o := range list {
		old, ok := there[o.name]
		if ok && !strings.Contains(old.Text, o.owner) && (what == procedureKind || old.Text != "") {
			return nil, nil, fmt.Errorf("%w: the %s %s does not belong to this instance (its text is %.80q); drop it, or choose another name", ErrTableTaken, what, o.name, old.Text)
		}
		usable := ok && strings.Contains(old.Text, o.mark)
		switch _, asked := orphaned[old.Definer]; {
		case usable && what == viewKind:
			usable = !db.isBroken(ctx, o.name)
		case usable && o.definer && !asked:
			orphaned[old.Definer] = db.isOrphan(ctx, o, old.Definer)
		}
		if !usable || o.definer && orphaned[old.Definer] {
			outdated = append(outdated, o)
		}
	}
	return outdated, there, nil
}

// What errors call the objects.
const procedureKind, viewKind = "stored procedure", "view"

// isOrphan reports whether a procedure fails because its definer is gone or lacks rights. It makes a call that a
// working procedure refuses.
func (db *DB) isOrphan(ctx context.Context, p object, definer string) bool {
	head, _, _ := strings.Cut(p.create, "SQL SECURITY")
	args := strings.TrimSuffix(strings.Repeat("NULL, ", strings.Count(head, "IN ")), ", ")
	_, err := db.SQL.ExecContext(ctx, "CALL "+p.name+"("+args+")")
	my, ok := errors.AsType[*mysql.MySQLError](err)
	user := "'" + strings.ReplaceAll(definer, "@", "'@'") + "'" // as the server names the denied user
	return ok && (my.Number == erNoDefiner || my.Number == erRoutineDenied && strings.Contains(my.Message, user))
}

// MakeProcedures creates or updates the stored procedures of the instance and of these queues, whose tables must exist.
// It returns the names of those it made. The error is ErrNoProcedures if this user may not create them. On SQLite it
// does nothing. It may be repeated and run concurrently: runs take turns.
func (db *DB) MakeProcedures(ctx context.Context, queues []Queue) (made []string, err error) {
	list, err := db.procedures(queues)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if outdated, _, err := db.outdated(ctx, procedureKind, list); err != nil || len(outdated) == 0 {
		return nil, err
	}
	m, end, err := db.migration(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end(err)) }()
	outdated, there, err := db.outdated(ctx, procedureKind, list) // another run may have been faster
	if err != nil {
		return nil, err
	}
	var version string
	if err := m.conn.GetContext(ctx, &version, "SELECT VERSION()"); err != nil {
		return nil, err
	}
	replaces := strings.Contains(version, "MariaDB")
	var again []string
	for _, p := range outdated {
		old, _ := there[p.name]
		lost, err := m.makeProcedure(ctx, p, old, replaces)
		again = append(again, lost...)
		if err != nil && len(again) > 0 {
			err = fmt.Errorf("%w; then %s", err, rightsLost(again).Error()) // not an ErrRightsLost, because more is missing
		}
		if err != nil {
			return made, err
		}
		made = append(made, p.name)
	}
	return made, rightsLost(again)
}

// rightsLost is an ErrRightsLost with the statements to run, or nil if there are none.
func rightsLost(again []string) error {
	if len(again) == 0 {
		return nil
	}
	return fmt.Errorf("%w, which were lost with the older version: %s", ErrRightsLost, strings.Join(again, "; "))
}

// makeProcedure creates a procedure, or replaces an older one of hipq's. Callers keep their rights: MariaDB's REPLACE
// preserves them, but on MySQL they must be granted again. It returns the GRANT statements that it could not run, also
// with an error.
func (m migration) makeProcedure(ctx context.Context, p object, old stored, replaces bool) (again []string, err error) {
	var grants []string
	switch {
	case old.Name != "" && replaces:
		err = m.write(ctx, strings.Replace(p.create, "CREATE PROCEDURE", "CREATE OR REPLACE PROCEDURE", 1))
	case old.Name != "":
		if grants, err = m.procedureGrants(ctx, p.name); err != nil && p.definer {
			again = []string{"GRANT EXECUTE ON PROCEDURE " + p.name + " TO the users that called it"}
		}
		if err = m.write(ctx, "DROP PROCEDURE IF EXISTS "+p.name); err == nil {
			err = m.write(ctx, p.create)
		} else if engine.IsAnswer(err) { // it was not dropped
			grants, again = nil, nil
		}
	default:
		err = m.write(ctx, p.create)
	}
	if err != nil {
		again = append(again, grants...)
	}
	my, ok := errors.AsType[*mysql.MySQLError](err)
	switch {
	case ok && my.Number == erSuperDenied && old.Name != "":
		return again, fmt.Errorf("%w: %s was not replaced, because %s made it and this user may not replace it; run hipq init as that user, or as one with SYSTEM_USER: %w",
			ErrNoProcedures, p.name, old.Definer, err)
	case ok && slices.Contains([]uint16{erDatabaseDenied, erRoutineDenied, erSuperDenied}, my.Number):
		return again, fmt.Errorf("%w: this user may not make them (it lacks CREATE ROUTINE or ALTER ROUTINE); run hipq init as a user that may: %w", ErrNoProcedures, err)
	case err != nil:
		return again, fmt.Errorf("make procedure %s: %w", p.name, err)
	}
	for _, statement := range grants {
		if m.write(ctx, statement) != nil {
			again = append(again, statement)
		}
	}
	return again, nil
}

// procedureGrants returns statements that restore a procedure's rights. It fails if this user may not read them.
func (m migration) procedureGrants(ctx context.Context, name string) (statements []string, err error) {
	var rows []struct{ User, Host, Rights string }
	const query = "SELECT User AS user, Host AS host, CAST(Proc_priv AS CHAR) AS rights FROM mysql.procs_priv" +
		" WHERE Db = DATABASE() AND Routine_name = ? AND Routine_type = 'PROCEDURE' AND CONCAT(User, '@', Host) <> CURRENT_USER()"
	if err := m.conn.SelectContext(ctx, &rows, query, name); err != nil {
		return nil, err
	}
	for _, r := range rows {
		rights, grants := strings.CutSuffix(r.Rights, "Grant")
		statement := "GRANT " + cmp.Or(strings.TrimSuffix(rights, ","), "USAGE") + " ON PROCEDURE " + name + " TO " +
			engine.Quote(r.User) + "@" + engine.Quote(r.Host)
		if grants {
			statement += " WITH GRANT OPTION"
		}
		statements = append(statements, statement)
	}
	return statements, nil
}

// Error numbers of the servers about rights. The last two mean that the definer of a procedure or view is gone, or lacks rights.
const (
	erDatabaseDenied = 1044
	erSuperDenied    = 1227
	erRoutineDenied  = 1370
	erNoDefiner      = 1449
	erViewInvalid    = 1356
)

// CheckProcedures counts the stored procedures of the instance and of these queues that this user sees. old are those
// that this hipq would replace. unseen are missing, or the user has no right to call them. It may be repeated. SQLite
// has none.
func (db *DB) CheckProcedures(ctx context.Context, queues []Queue) (seen int, old, unseen []string, err error) {
	list, err := db.procedures(queues)
	return db.checkObjects(ctx, procedureKind, list, err)
}

func (db *DB) checkObjects(ctx context.Context, what string, list []object, err error) (seen int, old, unseen []string, _ error) {
	if err != nil || len(list) == 0 {
		return 0, nil, nil, err
	}
	outdated, there, err := db.outdated(ctx, what, list)
	for _, o := range outdated {
		if there[o.name].Text == "" {
			unseen = append(unseen, o.name)
		} else {
			old = append(old, o.name)
		}
	}
	return len(list) - len(unseen), old, unseen, err
}
