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

	"github.com/hipq/hipq/internal/engine"
)

// ErrNoProcedures means that the stored procedures were left out, for the user may not make any. All else works without them.
var ErrNoProcedures = errors.New("the stored procedures are left out")

// ErrRightsLost means that the procedures were made, but not all who might call them still may: on MySQL their rights go with an
// older version, and this user could not give them back.
var ErrRightsLost = errors.New("grant the rights to call the stored procedures again")

// Procedures are the names of the stored procedures that applications call, without the instance's name. Each queue has those
// of jobs too, by the name of its table, a $ and theirs.
var Procedures = []string{
	"worker_register", "worker_heartbeat", "worker_deregister",
	"job_submit", "job_grab", "job_start", "job_progress", "job_complete", "job_fail", "job_backlog",
}

// procedure is a stored procedure. Its comment says whose it is, and has a fingerprint of its text.
type procedure struct {
	name, owner, fingerprint, create string
	// base is its name in Procedures; empty of a helper, and of what is for one queue.
	base string
	// definer: it does what the user may who made it, and not what its caller may.
	definer bool
}

func (p procedure) comment() string { return p.owner + ", " + p.fingerprint }

// Procedure is the name of one of Procedures in the instance.
func (n Names) Procedure(name string) string { return n.table(n.instance, name) }

// procedures are those of the instance and of these queues, in the order in which they are made.
func (db *DB) procedures(queues []Queue) ([]procedure, error) {
	if db.SQL.Engine != engine.MySQL.Engine {
		return nil, nil
	}
	units, err := db.units(queues)
	if err != nil {
		return nil, err
	}
	var list []procedure
	for _, u := range units {
		files, err := fs.Glob(sqlFiles, db.SQL.SQLDir+"/procedures/"+u.kind+"/*.sql") // sorted
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
		for _, p := range list {
			if u.kind == queueKind && strings.HasPrefix(p.base, "job_") {
				list = append(list, db.ofQueue(u, p))
			}
		}
	}
	return list, nil
}

// ofQueue is a procedure of the instance for one queue alone: the right to call it is a right to that queue, and to no other.
func (db *DB) ofQueue(u unit, all procedure) procedure {
	_, params, _ := strings.Cut(all.create, all.name+"(")
	params, _, _ = strings.Cut(params, ")\n")
	var own, args []string
	for param := range strings.SplitSeq(params, ", ") {
		name := strings.Fields(param)[1] // behind IN
		if name == "queue" {
			name = "'" + u.queue + "'"
		} else {
			own = append(own, param)
		}
		args = append(args, name)
	}
	p := procedure{name: u.tables[0] + "$" + all.base, owner: db.ownerOf(u), definer: true}
	p.fill("CREATE PROCEDURE " + p.name + "(" + strings.Join(own, ", ") + ")\n{traits}\nCALL " + all.name + "(" + strings.Join(args, ", ") + ")")
	return p
}

// ownerOf is what the comment of a unit's procedures begins with.
func (db *DB) ownerOf(u unit) string {
	if u.kind == queueKind {
		return "hipq: queue " + u.queue + " of instance " + db.instance
	}
	return "hipq: instance " + db.instance
}

// fill gives it its text, in which {traits} stands for what all have in common.
func (p *procedure) fill(create string) {
	p.fingerprint = fmt.Sprintf("%x", sha256.Sum256([]byte(create)))[:16]
	// The procedures that applications call run with the rights of the user of init, and so do the helpers that they call.
	security := "INVOKER"
	if p.definer {
		security = "DEFINER"
	}
	traits := "SQL SECURITY " + security + " MODIFIES SQL DATA COMMENT '" + p.comment() + "'"
	p.create = strings.TrimSpace(strings.Replace(create, "{traits}", traits, 1))
}

func (db *DB) procedure(u unit, file string) (p procedure, err error) {
	base := strings.TrimSuffix(path.Base(file), ".sql")
	helpers := db.Procedure("job")
	p.owner = db.ownerOf(u)
	switch {
	case u.kind == queueKind:
		p.name = u.tables[0] + "$" + base
	case slices.Contains(Procedures, base):
		p.name, p.base, p.definer = db.Procedure(base), base, true
	default:
		p.name = helpers + "$" + base
	}
	text, err := sqlFiles.ReadFile(file)
	if err != nil {
		return p, err
	}
	inlined, err := db.inlined(orderInSQL().Replace(string(text)))
	if err != nil {
		return p, err
	}
	skipLocked := "FOR UPDATE SKIP LOCKED"
	if db.SQL.IDsByKey { // a node of a cluster: see engine.Galera
		skipLocked = "FOR UPDATE"
	}
	create := u.replace.Replace(strings.NewReplacer(
		"{self}", p.name, "{job}", helpers, "{owners}", ownersTable, "{instance}", db.instance, "{workers}", db.Workers(),
		"{queues}", db.Queues(), "{shards}", db.Shards(), "{job_types}", db.JobTypes(), "{skip_locked}", skipLocked,
		"{text}", "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "{id}", "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin",
		"{now}", nowInProcedures, "{counts}", Counts, "{default_policy}", DefaultPolicy, "{no_reason}", "the handler gave no reason",
	).Replace(inlined))
	p.fill(create)
	return p, nil
}

// nowInProcedures is the server's clock, in UTC. A session can set what UTC_TIMESTAMP says, but not SYSDATE. That is in the session's
// zone, which UTC_TIMESTAMP and NOW tell, also in the hour that a zone has twice.
const nowInProcedures = "(SYSDATE(6) + INTERVAL TIMESTAMPDIFF(MICROSECOND, NOW(6), UTC_TIMESTAMP(6)) MICROSECOND)"

// inlined is the text of a procedure with that of a file in the place of each {inline NAME}: what several have in common. As a
// procedure of its own it would cost each of them as much as a statement or two.
func (db *DB) inlined(text string) (string, error) {
	const mark = "{inline "
	for {
		before, after, found := strings.Cut(text, mark)
		if !found {
			return text, nil
		}
		name, after, _ := strings.Cut(after, "}")
		part, err := sqlFiles.ReadFile(db.SQL.SQLDir + "/procedures/inline/" + name + ".sql")
		if err != nil {
			return "", err
		}
		indent := before[strings.LastIndexByte(before, '\n')+1:]
		text = before + strings.ReplaceAll(strings.TrimSpace(string(part)), "\n", "\n"+indent) + after
	}
}

// DefaultPolicy is the retry policy where the config says nothing, as the registration of a type has it.
const DefaultPolicy = `{"attempts":3,"delay":60000000000,"backoff":"exponential","max_delay":3600000000000,"jitter":0.1}`

// ProceduresDDL is everything that MakeProcedures would run in a database without procedures, for the server's own client: empty
// for SQLite, which has none.
func ProceduresDDL(driver string, names Names, queues []Queue) (string, error) {
	if driver != engine.MySQL.Engine {
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

// stored is a procedure that is in the database. Its definer is the user that made it.
type stored struct{ Name, Comment, Definer string }

// there gives those of the procedures that are in the database, by name, as far as this user may see them.
func (db *DB) there(ctx context.Context, list []procedure) (map[string]stored, error) {
	names := make([]any, len(list))
	for i, p := range list {
		names[i] = p.name
	}
	var rows []stored
	const query = "SELECT routine_name AS name, routine_comment AS comment, definer AS definer FROM information_schema.routines" +
		" WHERE routine_schema = DATABASE() AND routine_type = 'PROCEDURE' AND routine_name IN "
	if err := db.SQL.SelectContext(ctx, &rows, query+engine.In(len(names)), names...); err != nil {
		return nil, fmt.Errorf("look for the stored procedures: %w", err)
	}
	found := map[string]stored{}
	for _, r := range rows {
		found[strings.ToLower(r.Name)] = r
	}
	return found, nil
}

// outdated gives those of the procedures that are not in the database, or in another version, or do what a user might who is no
// more, or may no more. It refuses one that is not hipq's.
func (db *DB) outdated(ctx context.Context, list []procedure) (outdated []procedure, there map[string]stored, err error) {
	if there, err = db.there(ctx, list); err != nil {
		return nil, nil, err
	}
	orphaned := map[string]bool{} // by definer
	for _, p := range list {
		old, ok := there[p.name]
		if ok && !strings.HasPrefix(old.Comment, p.owner+", ") {
			return nil, nil, fmt.Errorf("%w: there is a procedure %s that is not hipq's of this instance (its comment is %.80q); drop it, or choose another name",
				ErrTableTaken, p.name, old.Comment)
		}
		if _, asked := orphaned[old.Definer]; ok && p.definer && !asked {
			orphaned[old.Definer] = db.isOrphan(ctx, p, old.Definer)
		}
		if !ok || old.Comment != p.comment() || p.definer && orphaned[old.Definer] {
			outdated = append(outdated, p)
		}
	}
	return outdated, there, nil
}

// isOrphan finds out whether a procedure fails for want of the user whose rights it has, or of that one's rights, by a call that
// is refused otherwise.
func (db *DB) isOrphan(ctx context.Context, p procedure, definer string) bool {
	head, _, _ := strings.Cut(p.create, "SQL SECURITY")
	args := strings.TrimSuffix(strings.Repeat("NULL, ", strings.Count(head, "IN ")), ", ")
	_, err := db.SQL.ExecContext(ctx, "CALL "+p.name+"("+args+")")
	my, ok := errors.AsType[*mysql.MySQLError](err)
	user := "'" + strings.ReplaceAll(definer, "@", "'@'") + "'" // as the server names who is denied
	return ok && (my.Number == erNoDefiner || my.Number == erRoutineDenied && strings.Contains(my.Message, user))
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
	m, end, err := db.migration(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end(err)) }()
	outdated, there, err := db.outdated(ctx, list) // another may have been faster
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
		if err != nil {
			return made, errors.Join(err, rightsLost(again))
		}
		made, again = append(made, p.name), append(again, lost...)
	}
	return made, rightsLost(again)
}

// rightsLost is ErrRightsLost, with the statements that are to be run, if there are any.
func rightsLost(again []string) error {
	if len(again) == 0 {
		return nil
	}
	return fmt.Errorf("%w, which went with the older version: %s", ErrRightsLost, strings.Join(again, "; "))
}

// makeProcedure makes a procedure, in the place of an older one of hipq's if there is one. Who might call that may call this:
// of itself only a server that replaces procedures sees to that, which MySQL doesn't. It gives the statements that it could not
// run to that end.
func (m migration) makeProcedure(ctx context.Context, p procedure, old stored, replaces bool) (again []string, err error) {
	var grants []string
	switch {
	case old.Name != "" && replaces:
		err = m.write(ctx, strings.Replace(p.create, "CREATE PROCEDURE", "CREATE OR REPLACE PROCEDURE", 1))
	case old.Name != "":
		if grants, err = m.procedureGrants(ctx, p.name); err != nil && p.definer {
			again = []string{"GRANT EXECUTE ON PROCEDURE " + p.name + " TO whoever called it"}
		}
		if err = m.write(ctx, "DROP PROCEDURE IF EXISTS "+p.name); err == nil {
			err = m.write(ctx, p.create)
		}
	default:
		err = m.write(ctx, p.create)
	}
	my, ok := errors.AsType[*mysql.MySQLError](err)
	switch {
	case ok && my.Number == erSuperDenied && old.Name != "":
		return nil, fmt.Errorf("%w: %s stays as it is, for this user may not replace what %s has made; run init as that user, or as one with SYSTEM_USER: %w",
			ErrNoProcedures, p.name, old.Definer, err)
	case ok && slices.Contains([]uint16{erDatabaseDenied, erRoutineDenied, erSuperDenied}, my.Number):
		return nil, fmt.Errorf("%w: this user may not make them (it lacks CREATE ROUTINE or ALTER ROUTINE); run init as one who may: %w", ErrNoProcedures, err)
	case err != nil:
		return nil, fmt.Errorf("make procedure %s: %w", p.name, err)
	}
	for _, statement := range grants {
		if m.write(ctx, statement) != nil {
			again = append(again, statement)
		}
	}
	return again, nil
}

// procedureGrants are the statements that give a procedure's rights again to those who have them. It fails where this user may
// not read who has.
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
		if _, ok := there[p.name]; ok {
			old = append(old, p.name)
		} else {
			unseen = append(unseen, p.name)
		}
	}
	return len(there), old, unseen, nil
}
