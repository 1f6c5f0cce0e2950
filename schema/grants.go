package schema

import (
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/engine"
)

// insertable are the columns that an application fills in which enqueues by plain SQL: with the right to insert these alone,
// no row of its own can be taken for one of hipq's.
const insertable = "job_type, job_data, job_key, shard_key, scheduled_run_time, priority, timeout, throttle_factor, time_windows"

// Grants are the rights that who works with the tables needs, as statements of MySQL, for three users: one for init, hipq's
// own of the DSN, and the application's. ErrConfig with SQLite, which knows no users.
func Grants(o Options, names Names, queues []Queue) (string, error) {
	if o.Driver != engine.MySQL.Name {
		return "", fmt.Errorf("%w: SQLite knows no users: who may write the file may do everything (database.mode)", ErrConfig)
	}
	cfg, err := mysql.ParseDSN(o.DSN)
	if err != nil || cfg.DBName == "" {
		return "", fmt.Errorf("%w: database.dsn is not of the form user:password@tcp(host:3306)/database", ErrConfig)
	}
	db := unopened(engine.MySQL, names)
	units, err := db.units(queues)
	if err != nil {
		return "", err
	}
	quoted := "`" + strings.ReplaceAll(cfg.DBName, "`", "``") + "`."
	user := "'" + strings.ReplaceAll(cfg.User, "'", "''") + "'@'%'"
	var all, ofQueues []string
	all = append(all, ownersTable)
	for _, u := range units {
		all = append(all, u.tables...)
		if u.kind == queueKind {
			ofQueues = append(ofQueues, u.tables...)
		}
	}
	var b strings.Builder
	b.WriteString("-- 1. before hipq init, which runs as this user (HIPQ_DATABASE_DSN), at first and after an upgrade; CREATE USER comes first\n")
	fmt.Fprintf(&b, "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON %s* TO 'hipq_init'@'%%';\n", quoted)
	b.WriteString("-- 2. after hipq init, for the tables must be there: all other commands\n")
	for _, table := range all {
		fmt.Fprintf(&b, "GRANT SELECT, INSERT, UPDATE, DELETE ON %s`%s` TO %s;\n", quoted, table, user)
	}
	b.WriteString("-- 3. likewise, an application that enqueues by plain SQL\n")
	for _, table := range ofQueues {
		fmt.Fprintf(&b, "GRANT INSERT (%s) ON %s`%s` TO 'application'@'%%';\n", insertable, quoted, table)
	}
	return b.String(), nil
}
