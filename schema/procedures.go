package schema

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/internal/engine"
)

// ErrNoProcedures means that the stored procedures were left out, for the user may not make any. All else works without them.
var ErrNoProcedures = errors.New("the stored procedures are left out")

// Procedures are the names of the stored procedures that applications call, without the instance's name.
var Procedures = []string{
	"worker_register", "worker_heartbeat", "worker_deregister",
	"job_submit", "job_grab", "job_start", "job_complete", "job_fail", "job_backlog",
}

// procedure is a stored procedure. Its comment says whose it is, and has a fingerprint of its text.
type procedure struct {
	name, owner, fingerprint, create string
	// definer: it does what the user may who made it, and not what its caller may.
	definer bool
}

func (p procedure) comment() string { return p.owner + ", " + p.fingerprint }

// Procedure is the name of one of Procedures in the instance.
func (n Names) Procedure(name string) string { return n.table(n.instance, name) }

// procedures are those of the instance and of these queues, in the order in which they are made.
func (db *DB) procedures(queues []Queue) ([]procedure, error) {
	if db.Name != engine.MySQL.Name {
		return nil, nil
	}
	units, err := db.units(queues)
	if err != nil {
		return nil, err
	}
	var list []procedure
	for _, u := range units {
		files, err := fs.Glob(files, db.SQLDir+"/procedures/"+u.kind+"/*.sql") // sorted
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			p, err := db.procedure(u, file)
			if err != nil {
				return nil, err
			}
			list = append(list, p)
		}
	}
	return list, nil
}

func (db *DB) procedure(u unit, file string) (p procedure, err error) {
	base := strings.TrimSuffix(path.Base(file), ".sql")
	helpers := db.Procedure("job")
	switch {
	case u.kind == queueKind:
		p.name, p.owner = u.tables[0]+"$"+base, "hipq: queue "+u.queue+" of instance "+db.instance
	case slices.Contains(Procedures, base):
		p.name, p.owner = db.Procedure(base), "hipq: instance "+db.instance
	default:
		p.name, p.owner = helpers+"$"+base, "hipq: instance "+db.instance
	}
	text, err := files.ReadFile(file)
	if err != nil {
		return p, err
	}
	skipLocked := "FOR UPDATE SKIP LOCKED"
	if db.IDsByKey { // a node of a cluster: see engine.Galera
		skipLocked = "FOR UPDATE"
	}
	create := u.replace.Replace(strings.NewReplacer(
		"{self}", p.name, "{job}", helpers, "{owners}", ownersTable, "{instance}", db.instance, "{workers}", db.Workers(),
		"{queues}", db.Queues(), "{job_types}", db.JobTypes(), "{pick}", u.order.Pick(), "{skip_locked}", skipLocked,
		"{text}", "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "{id}", "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin",
		"{default_policy}", DefaultPolicy, "{no_reason}", "the handler gave no reason",
	).Replace(string(text)))
	p.fingerprint = fmt.Sprintf("%x", sha256.Sum256([]byte(create)))[:16]
	// The helpers do what whoever calls them may do. By those that applications call, that is what the user of init may.
	security := "INVOKER"
	if u.kind != queueKind && slices.Contains(Procedures, base) {
		security, p.definer = "DEFINER", true
	}
	traits := "SQL SECURITY " + security + " MODIFIES SQL DATA COMMENT '" + p.comment() + "'"
	p.create = strings.TrimSpace(strings.Replace(create, "{traits}", traits, 1))
	return p, nil
}

// DefaultPolicy is the retry policy of a job type that no config names, as the registration of a type has it.
const DefaultPolicy = `{"attempts":3,"delay_us":60000000,"max_delay_us":3600000000,"jitter":0.1}`

// ProceduresDDL is everything that MakeProcedures would run in a database without procedures, for the server's own client: empty
// for SQLite, which has none.
func ProceduresDDL(driver string, names Names, queues []Queue) (string, error) {
	if driver != engine.MySQL.Name {
		return "", nil
	}
	list, err := unopened(engine.MySQL, names).procedures(queues)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	// a procedure keeps what the session has set that makes it
	b.WriteString("SET NAMES utf8mb4 COLLATE utf8mb4_bin, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';\n\nDELIMITER //\n")
	for _, p := range list {
		b.WriteString("\n" + p.create + "//\n")
	}
	b.WriteString("\nDELIMITER ;\n")
	return b.String(), nil
}

// there gives the comments of those of the procedures that are in the database, by name, as far as this user may see them.
func (db *DB) there(ctx context.Context, list []procedure) (map[string]string, error) {
	names := make([]any, len(list))
	for i, p := range list {
		names[i] = p.name
	}
	var rows []struct{ Name, Comment string }
	const query = "SELECT routine_name AS name, routine_comment AS comment FROM information_schema.routines" +
		" WHERE routine_schema = DATABASE() AND routine_type = 'PROCEDURE' AND routine_name IN "
	if err := db.SelectContext(ctx, &rows, query+engine.In(len(names)), names...); err != nil {
		return nil, fmt.Errorf("look for the stored procedures: %w", err)
	}
	found := map[string]string{}
	for _, r := range rows {
		found[strings.ToLower(r.Name)] = r.Comment
	}
	return found, nil
}

// outdated gives those of the procedures that are not in the database, or in another version, or do what a user might who is no
// more. It refuses one that is not hipq's.
func (db *DB) outdated(ctx context.Context, list []procedure) (outdated []procedure, there map[string]string, err error) {
	if there, err = db.there(ctx, list); err != nil {
		return nil, nil, err
	}
	orphaned := false
	if _, ok := there[db.Procedure("job_backlog")]; ok {
		_, err := db.ExecContext(ctx, "CALL "+db.Procedure("job_backlog")+"(NULL, NULL)") // which is refused at least
		my, ok := errors.AsType[*mysql.MySQLError](err)
		orphaned = ok && my.Number == erNoDefiner
	}
	for _, p := range list {
		comment, ok := there[p.name]
		switch {
		case ok && comment == p.comment() && (!orphaned || !p.definer):
		case ok && !strings.HasPrefix(comment, p.owner+", "):
			return nil, nil, fmt.Errorf("%w: there is a procedure %s that is not hipq's of this instance (its comment is %.80q); drop it, or choose another name",
				ErrTableTaken, p.name, comment)
		default:
			outdated = append(outdated, p)
		}
	}
	return outdated, there, nil
}

// MakeProcedures makes the stored procedures of the instance and of these queues, whose tables are there, or brings them up to
// date, and gives the names of those that it has made. ErrNoProcedures if this user may not. SQLite has none. It may be repeated,
// and run by several at once: they take turns.
func (db *DB) MakeProcedures(ctx context.Context, queues []Queue) (made []string, err error) {
	list, err := db.procedures(queues)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if outdated, _, err := db.outdated(ctx, list); err != nil || len(outdated) == 0 {
		return nil, err
	}
	conn, err := sqlx.NewDb(db.DB.DB, db.Name).Connx(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	m := migration{db: db, conn: conn}
	end, err := m.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for another migration: %w", err)
	}
	defer func() { err = errors.Join(err, end(err)) }()
	outdated, there, err := db.outdated(ctx, list) // another may have been faster
	if err != nil {
		return nil, err
	}
	var version string
	if err := conn.GetContext(ctx, &version, "SELECT VERSION()"); err != nil {
		return nil, err
	}
	replaces := strings.Contains(version, "MariaDB")
	for _, p := range outdated {
		if err := m.makeProcedure(ctx, p, there[p.name] != "", replaces); err != nil {
			return made, err
		}
		made = append(made, p.name)
	}
	return made, nil
}

// makeProcedure makes a procedure, in the place of an older one of hipq's if there is one. Who might call that may call this:
// of itself only a server that replaces procedures sees to that, which MySQL doesn't.
func (m migration) makeProcedure(ctx context.Context, p procedure, old, replaces bool) error {
	var err error
	switch {
	case old && replaces:
		err = m.write(ctx, strings.Replace(p.create, "CREATE PROCEDURE", "CREATE OR REPLACE PROCEDURE", 1))
	case old:
		grants := m.procedureGrants(ctx, p.name)
		err = m.write(ctx, "DROP PROCEDURE IF EXISTS "+p.name)
		if err == nil {
			err = m.write(ctx, p.create)
		}
		for _, statement := range grants {
			if err == nil && m.write(ctx, statement) != nil {
				return fmt.Errorf("made procedure %s, but could not give its rights back; do so by hand, and run init again: %s", p.name, statement)
			}
		}
	default:
		err = m.write(ctx, p.create)
	}
	my, ok := errors.AsType[*mysql.MySQLError](err)
	switch {
	case err == nil:
		return nil
	case ok && slices.Contains([]uint16{erDatabaseDenied, erRoutineDenied, erSuperDenied}, my.Number):
		return fmt.Errorf("%w: this user may not make them (it lacks CREATE ROUTINE or ALTER ROUTINE); run init as one who may: %w", ErrNoProcedures, err)
	}
	return fmt.Errorf("make procedure %s: %w", p.name, err)
}

// procedureGrants are the statements that give a procedure's rights again to those who have them; none where this user may not
// read who has, or may grant nothing.
func (m migration) procedureGrants(ctx context.Context, name string) (statements []string) {
	var rows []struct{ User, Host, Rights string }
	const query = "SELECT User AS user, Host AS host, CAST(Proc_priv AS CHAR) AS rights FROM mysql.procs_priv" +
		" WHERE Db = DATABASE() AND Routine_name = ? AND Routine_type = 'PROCEDURE' AND CONCAT(User, '@', Host) <> CURRENT_USER()"
	if err := m.conn.SelectContext(ctx, &rows, query, name); err != nil {
		return nil
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
	return statements
}

// Numbers of the servers' errors about rights; the last is that the user is no more whose rights a procedure has.
const (
	erDatabaseDenied = 1044
	erSuperDenied    = 1227
	erRoutineDenied  = 1370
	erNoDefiner      = 1449
)

// CheckProcedures finds out how many of the stored procedures of the instance and of these queues this user sees, which of them
// are not as this hipq would make them, and which it doesn't see: they are not there, or it has no right to call them. It may be
// repeated. SQLite has none.
func (db *DB) CheckProcedures(ctx context.Context, queues []Queue) (seen int, old, unseen []string, err error) {
	list, err := db.procedures(queues)
	if err != nil || len(list) == 0 {
		return 0, nil, nil, err
	}
	outdated, there, err := db.outdated(ctx, list)
	if err != nil {
		return 0, nil, nil, err
	}
	for _, p := range outdated {
		if there[p.name] != "" {
			old = append(old, p.name)
		} else {
			unseen = append(unseen, p.name)
		}
	}
	return len(there), old, unseen, nil
}
