package schema

import (
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/engine"
)

// insertable are the columns for an application that enqueues with plain SQL. With the right to these alone, it can't
// forge a row of hipq's.
const insertable = "job_type, job_data, job_key, shard_key, scheduled_run_time, priority, timeout, throttle_factor, time_windows"

// Rights are MySQL statements that grant rights to the users of init, of hipq's DSN, and of applications.
type Rights struct {
	// Init is for the user that runs hipq init.
	Init string
	// Tables are hipq's tables. Worker is for all commands but init, one statement per table.
	Tables, Worker []string
	// Application is for applications that enqueue by plain SQL, one statement per queue.
	Application []string
	// Triggers keep such an application's session from setting the id, which column rights don't. Two statements per
	// queue. Init doesn't create them: if their creator is dropped, every insert fails.
	Triggers []string
	// Submitter is for enqueuing, and SQLWorker for working, by the stored procedures: one statement per procedure.
	// QueueWorker is for working one queue, with a user per queue.
	Submitter, SQLWorker, QueueWorker []string
}

// String returns all statements, with comments.
func (r Rights) String() string {
	var b strings.Builder
	b.WriteString("-- 1. before hipq init, which runs as this user (HIPQ_DATABASE_DSN), first and after each upgrade; run CREATE USER first\n")
	b.WriteString(r.Init + "\n")
	b.WriteString("-- 2. after hipq init, which makes the tables: all other commands\n")
	b.WriteString(strings.Join(r.Worker, "\n") + "\n")
	b.WriteString("-- 3. after hipq init: an application that enqueues with plain SQL\n")
	b.WriteString(strings.Join(r.Application, "\n") + "\n")
	b.WriteString("-- in case its sessions might set insert_id; run as a permanent user, because without that user every insert fails\n")
	b.WriteString("DELIMITER //\n" + strings.Join(r.Triggers, "//\n") + "//\nDELIMITER ;\n")
	b.WriteString("-- 4. after hipq init: an application that enqueues with the stored procedures\n")
	b.WriteString(strings.Join(r.Submitter, "\n") + "\n")
	b.WriteString("-- 5. after hipq init: a program that works with the stored procedures\n")
	b.WriteString(strings.Join(r.SQLWorker, "\n") + "\n")
	b.WriteString("-- 6. after hipq init: a program that works one queue with the stored procedures\n")
	b.WriteString(strings.Join(r.QueueWorker, "\n") + "\n")
	return b.String()
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
	units, err := unopened(engine.MySQL, names).units(queues)
	if err != nil {
		return Rights{}, err
	}
	quoted := "`" + strings.ReplaceAll(cfg.DBName, "`", "``") + "`."
	user := "'" + strings.ReplaceAll(cfg.User, "'", "''") + "'@'%'"
	r := Rights{
		Init:   fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP, CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON %s* TO 'hipq_init'@'%%';", quoted),
		Tables: []string{ownersTable},
	}
	for _, u := range units {
		r.Tables = append(r.Tables, u.tables...)
		if u.kind != queueKind {
			continue
		}
		table := u.tables[0]
		r.Application = append(r.Application, fmt.Sprintf("GRANT INSERT (%s) ON %s`%s` TO 'application'@'%%';", insertable, quoted, table))
		trigger := fmt.Sprintf("%s`%s$insert`", quoted, table)
		r.Triggers = append(r.Triggers, "DROP TRIGGER IF EXISTS "+trigger, // CREATE … IF NOT EXISTS needs MySQL 8.0.29
			fmt.Sprintf("CREATE TRIGGER %s BEFORE INSERT ON %s`%s` FOR EACH ROW"+
				" BEGIN IF @@SESSION.insert_id > 0 THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31017,"+
				" MESSAGE_TEXT = 'the session has set insert_id: open a new connection'; END IF; END", trigger, quoted, table))
		for _, name := range Procedures {
			procedure := names.Procedure(name)
			if strings.HasPrefix(name, "job_") {
				procedure = table + "$" + name
			}
			r.QueueWorker = append(r.QueueWorker, fmt.Sprintf("GRANT EXECUTE ON PROCEDURE %s`%s` TO '%s_worker'@'%%';", quoted, procedure, u.queue))
		}
	}
	for _, name := range Procedures {
		execute := fmt.Sprintf("GRANT EXECUTE ON PROCEDURE %s`%s` TO ", quoted, names.Procedure(name))
		if name == "job_submit" || name == "job_backlog" {
			r.Submitter = append(r.Submitter, execute+"'submitter'@'%';")
		}
		r.SQLWorker = append(r.SQLWorker, execute+"'sql_worker'@'%';")
	}
	for _, table := range r.Tables {
		r.Worker = append(r.Worker, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s`%s` TO %s;", quoted, table, user))
	}
	return r, nil
}
