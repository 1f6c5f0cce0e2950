package schema

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
)

// Procedures are the names of the stored procedures for applications, without the instance's name. Each queue also has
// those that take a queue, named TABLE$NAME.
var Procedures = []string{
	"worker_register", "worker_heartbeat", "worker_deregister",
	"job_submit", "job_submit_many", "job_grab", "job_start", "job_progress", "job_complete", "job_fail", "job_backlog",
	"job_get", "job_cancel", "job_retry", "job_dismiss", "job_reschedule", "job_answer", "queue_pause",
}

// Operating are those of Procedures that look at jobs and change them from outside, as commands do.
var Operating = Procedures[11:]

// object is a stored procedure or a view. Its mark, in a procedure's comment or a view's text, names the owner and has a
// fingerprint of the text.
type object struct {
	name, owner, mark, create string
	// base is a procedure's name in Procedures; empty for helpers and for procedures of one queue.
	base string
	// definer means that a procedure runs with the rights of its creator, not of its caller.
	definer bool
}

// Procedure is the name in the instance of one of Procedures.
func (n Names) Procedure(name string) string { return n.table(n.instance, name) }

// procedures are those of the instance and of these queues, in the order of their creation.
func (db *DB) procedures(queues []Queue) ([]object, error) {
	if db.SQL.Engine != engine.MySQL.Engine {
		return nil, nil
	}
	units, err := db.units(queues)
	if err != nil {
		return nil, err
	}
	var list []object
	for _, u := range units {
		files, _ := fs.Glob(sqlFiles, db.SQL.SQLDir+"/procedures/"+u.kind+"/*.sql") // sorted
		for _, file := range files {
			list = append(list, db.procedure(u, file))
		}
		for _, p := range list {
			if u.kind == queueKind && p.base != "" && nameOf(u.tables[0], p.base) != "" {
				list = append(list, db.ofQueue(u, p))
			}
		}
	}
	return list, nil
}

const maxProcedure = 64

// nameOf is the name of one of Procedures for the queue with this table; empty if it takes no queue, or if the name is too long:
// then there is only that of the instance.
func nameOf(table, base string) string {
	if name := table + "$" + base; len(name) <= maxProcedure && !strings.HasPrefix(base, "worker_") {
		return name
	}
	return ""
}

// ofQueue makes a procedure of the instance for one queue: the right to call it is a right to that queue only.
func (db *DB) ofQueue(u unit, all object) object {
	_, params, _ := strings.Cut(all.create, all.name+"(")
	params, _, _ = strings.Cut(params, ")\n")
	var own, args []string
	for param := range strings.SplitSeq(params, ", ") {
		name := strings.Fields(param)[1] // after IN
		if name == "queue" {
			name = "'" + u.queue + "'"
		} else {
			own = append(own, param)
		}
		args = append(args, name)
	}
	p := object{name: nameOf(u.tables[0], all.base), owner: db.ownerOf(u), definer: true}
	p.fill("CREATE PROCEDURE " + p.name + "(" + strings.Join(own, ", ") + ")\n{traits}\nCALL " + all.name + "(" + strings.Join(args, ", ") + ")")
	return p
}

// ownerOf starts the marks of a unit's procedures and views.
func (db *DB) ownerOf(u unit) string {
	return "hipq: " + owner{instance: db.instance, queue: u.queue}.String() + ", "
}

// fill sets the text, in which {traits} stands for the common characteristics.
func (p *object) fill(create string) {
	p.mark = p.owner + fingerprint(create)
	// The procedures that applications call run with the rights of init's user, and so do their helpers.
	security := "INVOKER"
	if p.definer {
		security = "DEFINER"
	}
	traits := "SQL SECURITY " + security + " MODIFIES SQL DATA COMMENT '" + p.mark + "'"
	p.create = strings.TrimSpace(strings.Replace(create, "{traits}", traits, 1))
}

func fingerprint(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16] }

func (db *DB) procedure(u unit, file string) object {
	base, helpers, p := strings.TrimSuffix(path.Base(file), ".sql"), db.Procedure("job"), object{owner: db.ownerOf(u)}
	switch {
	case u.kind == queueKind:
		p.name = u.tables[0] + "$" + base
	case slices.Contains(Procedures, base):
		p.name, p.base, p.definer = db.Procedure(base), base, true
	default:
		p.name = helpers + "$" + base
	}
	skipLocked, nodes := "FOR UPDATE SKIP LOCKED", "FALSE"
	if db.SQL.IDsByKey { // a node of a cluster: see engine.Galera
		skipLocked, nodes = "FOR UPDATE", "TRUE"
	}
	p.fill(u.replace.Replace(strings.NewReplacer(
		"{self}", p.name, "{job}", helpers, "{skip_locked}", skipLocked, "{nodes}", nodes,
		"{text}", "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "{id}", "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin",
		"{now}", nowInProcedures, "{counts}", Counts, "{default_policy}", DefaultPolicy, "{no_reason}", "the handler gave no reason",
		"{ask_lasts}", strconv.Itoa(int(claim.AskLasts/time.Second)), "{ask_every}", strconv.Itoa(int(claim.AskEvery/time.Second)),
	).Replace(db.inlined(textOf(sqlFiles, file)))))
	return p
}

// nowInProcedures is the server's clock in UTC. A session can set UTC_TIMESTAMP, but not SYSDATE, which is in the
// session's zone. UTC_TIMESTAMP minus NOW is that zone's offset, also in the hour that occurs twice.
const nowInProcedures = "(SYSDATE(6) + INTERVAL TIMESTAMPDIFF(MICROSECOND, NOW(6), UTC_TIMESTAMP(6)) MICROSECOND)"

// inlined replaces each {inline NAME} by the text of a shared file. A procedure of its own would cost as much as a
// statement or two.
func (db *DB) inlined(text string) string {
	const mark = "{inline "
	for {
		before, after, found := strings.Cut(text, mark)
		if !found {
			return text
		}
		name, after, _ := strings.Cut(after, "}")
		part := strings.TrimSpace(textOf(sqlFiles, "sql/mysql/procedures/inline/"+name+".sql"))
		indent := before[strings.LastIndexByte(before, '\n')+1:]
		text = before + strings.ReplaceAll(part, "\n", "\n"+indent) + after
	}
}

// DefaultPolicy is the retry policy if the config sets none, in the form of a type's registration.
const DefaultPolicy = `{"attempts":3,"delay":60000000000,"backoff":"exponential","max_delay":3600000000000,"jitter":0.1}`

// ProceduresDDL returns all that MakeProcedures would run in a database without procedures, for the server's own
// client. It is empty for SQLite, which has none.
func ProceduresDDL(driver string, names Names, queues []Queue) (string, error) {
	list, err := unopened(driver, names).procedures(queues)
	if err != nil || len(list) == 0 {
		return "", err
	}
	var b strings.Builder
	// a procedure keeps the settings of the session that creates it
	b.WriteString("SET NAMES utf8mb4 COLLATE utf8mb4_bin, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';\n\nDELIMITER //\n")
	for _, p := range list {
		b.WriteString("\n" + p.create + "//\n")
	}
	b.WriteString("\nDELIMITER ;\n")
	return b.String(), nil
}
