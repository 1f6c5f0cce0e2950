package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// insertable are the columns for an application that enqueues with plain SQL. With the right to these alone, it can't
// forge a row of hipq's.
const insertable = "job_type, job_data, job_key, shard_key, scheduled_run_time, priority, timeout, throttle_factor, time_windows"

// triggerBody refuses rows from sessions that could harm others, or that have damaged the row. It takes NULL, which object
// mappers send, for a column's default. Without strict mode, a text
// for a number or a time is cut, which only a warning shows; MySQL keeps the statement's warnings until the trigger's first
// statement that isn't about them. NOW is when the statement began, so it may be long past.
const triggerBody = "BEGIN GET DIAGNOSTICS @hipq_number = NUMBER;" +
	" GET DIAGNOSTICS CONDITION @hipq_number @hipq_errno = MYSQL_ERRNO, @hipq_text = MESSAGE_TEXT;" +
	" IF @hipq_number > 0 AND @hipq_errno IN (1264, 1265, 1366) THEN" + refusal + "@hipq_text;" +
	" ELSEIF @@SESSION.insert_id > 0 THEN" + refusal + "'the session has set insert_id: open a new connection';" +
	" ELSEIF @@SESSION.unique_checks = 0 THEN" + refusal + "'the session has unique_checks = 0: SET unique_checks = 1';" +
	" ELSEIF TIMESTAMPDIFF(SECOND, NOW(), SYSDATE()) NOT BETWEEN -10 AND 3600 THEN" + refusal + "'the session has set timestamp: SET timestamp = DEFAULT';" +
	" END IF;" +
	" IF NEW.job_data IS NULL THEN SET NEW.job_data = 'NONE'; END IF; IF NEW.job_key IS NULL THEN SET NEW.job_key = UUID(); END IF;" +
	" IF NEW.shard_key IS NULL THEN SET NEW.shard_key = 'NONE'; END IF;" +
	" IF NEW.scheduled_run_time IS NULL THEN SET NEW.scheduled_run_time = UTC_TIMESTAMP(6); END IF; END"

const refusal = " SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31017, MESSAGE_TEXT = "

// Rights are MySQL statements that grant rights to the users of init, of hipq's DSN, and of applications.
type Rights struct {
	// Init is for the user that runs hipq init.
	Init string
	// Tables are hipq's tables. Worker is for all commands but init, one statement per table.
	Tables, Worker []string
	// Application is for applications that enqueue by plain SQL, one statement per queue.
	Application []string
	// Triggers refuse what rights to columns don't: settings of the session that harm others, and values that it has cut.
	// Two statements per queue, for a connection to hipq's database. Init doesn't create them: if their creator is dropped, every insert fails.
	Triggers []string
	// Submitter is for enqueuing, and SQLWorker for working, by the stored procedures: one statement per procedure.
	// QueueWorker is for working one queue, with a user per queue.
	Submitter, SQLWorker, QueueWorker []string
	// Operator is for looking at jobs and changing them by procedures and views, QueueOperator for those of one queue: one statement
	// for each, so that each is a right by itself.
	Operator, QueueOperator []string
	use                     string
}

// Parts are the statements with comments: one text for each kind of user, in order.
func (r Rights) Parts() []string {
	lines := func(comment string, list ...string) string {
		return "-- " + comment + "\n" + strings.Join(list, "\n") + "\n"
	}
	return []string{
		lines("1. before hipq init, which runs as this user (HIPQ_DATABASE_DSN), first and after each upgrade; run CREATE USER first", r.Init),
		lines("2. after hipq init, which makes the tables: all other commands", r.Worker...),
		lines("3. after hipq init: an application that enqueues with plain SQL", r.Application...) +
			lines("in case its sessions might set insert_id, timestamp or unique_checks, or aren't strict; run as a permanent user, because without that user every insert fails",
				r.use, "DELIMITER //", strings.Join(r.Triggers, "//\n")+"//", "DELIMITER ;"),
		lines("4. after hipq init: an application that enqueues with the stored procedures", r.Submitter...),
		lines("5. after hipq init: a program that works with the stored procedures", r.SQLWorker...),
		lines("6. after hipq init: a program that works one queue with the stored procedures", r.QueueWorker...),
		lines("7. after hipq init: an application that looks at jobs and changes them; take what it needs", r.Operator...),
		lines("8. after hipq init: the same for the jobs of one queue", r.QueueOperator...),
	}
}

// String returns all parts.
func (r Rights) String() string {
	return "-- mariadb --force and mysql --force run all of this, also the statements after one whose user you don't have\n" + strings.Join(r.Parts(), "")
}

// Grants returns the rights that each kind of user needs. With SQLite, which has no users, the error is ErrConfig.
func Grants(o Options, names Names, queues []Queue) (Rights, error) {
	if o.Driver != engine.MySQL.Engine {
		return Rights{}, fmt.Errorf("%w: SQLite has no users: anyone who can write the file can do everything (database.mode)", ErrConfig)
	}
	cfg, err := mysql.ParseDSN(o.DSN)
	if err != nil || cfg.DBName == "" {
		return Rights{}, fmt.Errorf("%w: database.dsn is not of the form user:password@tcp(host:3306)/database", ErrConfig)
	}
	units, err := unopened(engine.MySQL.Engine, names).units(queues)
	if err != nil {
		return Rights{}, err
	}
	quoted := "`" + strings.ReplaceAll(cfg.DBName, "`", "``") + "`."
	user := "'" + strings.ReplaceAll(cfg.User, "'", "''") + "'@'%'"
	r := Rights{
		Init:   fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON %s* TO 'hipq_init'@'%%';", quoted),
		Tables: []string{ownersTable},
		use:    "USE " + strings.TrimSuffix(quoted, ".") + ";",
	}
	for _, u := range units {
		r.Tables = append(r.Tables, u.tables...)
		if u.kind != queueKind {
			continue
		}
		table := u.tables[0]
		r.Application = append(r.Application, fmt.Sprintf("GRANT INSERT (%s) ON %s`%s` TO 'application'@'%%';", insertable, quoted, table))
		// CREATE … IF NOT EXISTS needs MySQL 8.0.29. With the database in their names, a dump could be loaded only into that
		r.Triggers = append(r.Triggers, "DROP TRIGGER IF EXISTS `"+table+"$insert`",
			"CREATE TRIGGER `"+table+"$insert` BEFORE INSERT ON `"+table+"` FOR EACH ROW "+triggerBody)
		for _, name := range Views {
			read := fmt.Sprintf("GRANT SELECT ON %s`%s$%s` TO ", quoted, table, name)
			r.Operator, r.QueueOperator = append(r.Operator, read+"'operator'@'%';"), append(r.QueueOperator, read+"'"+u.queue+"_operator'@'%';")
		}
		for _, name := range Procedures {
			operates := slices.Contains(Operating, name)
			procedure := nameOf(table, name)
			if strings.HasPrefix(name, "worker_") {
				procedure = names.Procedure(name)
			}
			execute := fmt.Sprintf("GRANT EXECUTE ON PROCEDURE %s`%s` TO '%s_", quoted, procedure, u.queue)
			switch {
			case procedure == "":
			case operates:
				r.QueueOperator = append(r.QueueOperator, execute+"operator'@'%';")
			default:
				r.QueueWorker = append(r.QueueWorker, execute+"worker'@'%';")
			}
		}
	}
	for _, name := range Procedures {
		execute := fmt.Sprintf("GRANT EXECUTE ON PROCEDURE %s`%s` TO ", quoted, names.Procedure(name))
		switch {
		case slices.Contains(Operating, name):
			r.Operator = append(r.Operator, execute+"'operator'@'%';")
			continue
		case strings.HasPrefix(name, "job_submit") || name == "job_backlog":
			r.Submitter = append(r.Submitter, execute+"'submitter'@'%';")
		}
		r.SQLWorker = append(r.SQLWorker, execute+"'sql_worker'@'%';")
	}
	r.Worker = texts.Map(r.Tables, func(table string) string {
		return fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s`%s` TO %s;", quoted, table, user)
	})
	return r, nil
}
