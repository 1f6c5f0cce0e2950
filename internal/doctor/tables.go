package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/schema"
)

func lookAtTables(ctx context.Context, p *patient) Finding {
	if advice, err := Misnamed(ctx, p.db, p.Config, p.db.Check(ctx, p.Config.QueueTables())); err != nil {
		_, remedy := schema.Diagnose(err)
		return found(Wrong, joined(err.Error(), advice)).but(remedy)
	}
	tables, err := p.db.Tables(p.Config.QueueTables())
	if err != nil {
		return trouble(err)
	}
	high, err := p.db.HighIDs(ctx, tables...)
	if err != nil {
		return trouble(err)
	}
	if len(high) > 0 {
		what, remedy := schema.SayHighIDs(high)
		return found(Warning, what).but(remedy)
	}
	strays, err := Strays(ctx, p.db, p.Config)
	switch {
	case err != nil:
		return trouble(err)
	case len(strays) > 0:
		return found(Warning, strings.Join(strays, "; ")).but("correct the queue's name in the config, or make sure that workers run with a config that has it")
	}
	ties, err := p.ties(ctx, tables)
	switch {
	case err != nil:
		return trouble(err)
	case len(ties) > 0:
		return found(Warning, strings.Join(ties, "; ")).but("drop them: they can keep jobs from being deleted, and lock rows that workers need")
	}
	return found(OK, fmt.Sprintf("all %d are of this version", len(tables)))
}

// ties are the foreign keys and triggers of applications on hipq's tables; those of hipq init --print-grants are hipq's own.
func (p *patient) ties(ctx context.Context, tables []string) (ties []string, err error) {
	query := "SELECT DISTINCT CONCAT('table ', table_name, ' refers to ', referenced_table_name) FROM information_schema.key_column_usage" +
		" WHERE referenced_table_schema = DATABASE() AND (referenced_table_name IN {tables} OR table_name IN {tables})" +
		" UNION ALL SELECT CONCAT('trigger ', trigger_name, ' on ', event_object_table) FROM information_schema.triggers" +
		" WHERE event_object_schema = DATABASE() AND event_object_table IN {tables} AND trigger_name <> CONCAT(event_object_table, '$insert')"
	if p.isSQLite() {
		query = "SELECT DISTINCT 'table ' || m.name || ' refers to ' || f.\"table\" FROM sqlite_master m, pragma_foreign_key_list(m.name) f" +
			" WHERE m.type = 'table' AND (f.\"table\" IN {tables} OR m.name IN {tables}) UNION ALL SELECT 'trigger ' || name || ' on ' || tbl_name" +
			" FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN {tables} AND name <> tbl_name || '$insert'"
	}
	args := slices.Repeat(engine.Args(tables), strings.Count(query, "{tables}"))
	err = p.db.SQL.SelectContext(ctx, &ties, strings.ReplaceAll(query, "{tables}", engine.In(len(tables))), args...)
	return ties, texts.Wrap(err, "ask for foreign keys and triggers")
}

// made compares what hipq init makes with this hipq's. A user sees only what it may call, and all with a right in the whole database.
// gone says how all of it may have gone.
func made(
	check func(*schema.DB, context.Context, []schema.Queue) (seen int, old, unseen []string, err error), right, gone string,
) func(context.Context, *patient) Finding {
	return func(ctx context.Context, p *patient) Finding {
		seen, old, unseen, err := check(p.db, ctx, p.Config.QueueTables())
		switch names := strings.Join(unseen, ", "); {
		case err != nil:
			return trouble(err)
		case len(old) > 0:
			return found(Wrong, "of another version of hipq, or of a user that no longer exists or has lost its rights: "+strings.Join(old, ", ")).
				but("run hipq init")
		case len(unseen) > 0 && (p.isSQLite() || p.has(ctx, right)):
			return found(Wrong, fmt.Sprintf("%d are missing%s: %s", len(unseen), gone, names)).but("run hipq init")
		case seen == 0:
			return found(Unknown, "this user has no right to call any, or hipq init left them out; hipq's commands don't need them").
				but("if programs use hipq by SQL, run hipq doctor as the user of hipq init")
		case len(unseen) > 0:
			return found(OK, fmt.Sprintf("this user sees %d, but not %s", seen, names))
		}
		return found(OK, fmt.Sprintf("all %d are of this version", seen))
	}
}

// has reports whether this user has a right in the whole database, and so sees all such objects. It misses rights from roles.
func (p *patient) has(ctx context.Context, right string) bool {
	const query = "SELECT COUNT(*) FROM (SELECT privilege_type, grantee FROM information_schema.user_privileges" +
		" UNION ALL SELECT privilege_type, grantee FROM information_schema.schema_privileges WHERE DATABASE() LIKE table_schema) AS granted" +
		" WHERE grantee = CONCAT('''', SUBSTRING_INDEX(CURRENT_USER(), '@', 1), '''@''', SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''')" +
		" AND privilege_type = ?"
	var n int
	return p.db.SQL.GetContext(ctx, &n, query, right) == nil && n > 0
}

func lookAtSizes(ctx context.Context, p *patient) Finding {
	if p.isSQLite() {
		var all int64
		for _, name := range []string{"", "-wal"} {
			if info, err := os.Stat(p.Config.Database.Path + name); err == nil {
				all += info.Size()
			}
		}
		return found(OK, "the file and its log "+texts.Size(all))
	}
	rights, err := schema.Grants(p.Config.Database, p.db.Names, p.Config.QueueTables())
	if err != nil {
		return trouble(err)
	}
	var rows []struct {
		Table  string `db:"name"`
		Engine string
		Bytes  int64
	}
	const query = "SELECT table_name AS name, COALESCE(engine, '') AS engine, CAST(COALESCE(data_length + index_length, 0) AS SIGNED) AS bytes" +
		" FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 3 DESC, 1"
	if err := p.db.SQL.SelectContext(ctx, &rows, query); err != nil {
		return trouble(fmt.Errorf("ask for the tables' sizes: %w", err))
	}
	var said []string
	for _, row := range rows {
		if !slices.Contains(rights.Tables, row.Table) {
			continue
		}
		if row.Engine != "InnoDB" {
			return found(Wrong, fmt.Sprintf("table %s uses the engine %s, which has no transactions", row.Table, row.Engine)).
				but("ALTER TABLE " + row.Table + " ENGINE = InnoDB")
		}
		said = append(said, row.Table+" "+texts.Size(row.Bytes))
	}
	return found(OK, strings.Join(said, ", "))
}

// recent is how recently a worker should have started, on any host: cron starts one each minute.
const recent = 10 * time.Minute

func lookAtWorkers(ctx context.Context, p *patient) Finding {
	f := lookAtLastWorker(ctx, p)
	p.addLeftovers(ctx, &f)
	return f
}

func lookAtLastWorker(ctx context.Context, p *patient) Finding {
	const remedy = "is hipq work in the crontab of a host, and does cron find hipq and the config? see \"Nothing runs\" in docs/howto/troubleshooting.md"
	last, err := workers.New(p.db).LastHeard(ctx)
	if err != nil {
		return trouble(err)
	}
	if last == nil {
		if p.known["crontab_work"].Result != OK {
			return found(Warning, "cron has started no worker yet").but(p.cronLine("work"))
		}
		return found(Warning, "cron has started no worker yet").but("wait for cron's next minute; if that doesn't help, see \"Nothing runs\" in docs/howto/troubleshooting.md")
	}
	now, err := p.db.SQL.Clock(ctx)
	if err != nil {
		return trouble(err)
	}
	ago := now.Sub(last.Heartbeat.Time).Round(time.Second)
	what := fmt.Sprintf("the last one was active %s ago, on %s", ago, last.Host)
	if ago > recent {
		return found(Wrong, what).but(remedy)
	}
	return found(OK, what)
}

// addLeftovers adds the processes on this host that have outlived the worker whose handler started them.
func (p *patient) addLeftovers(ctx context.Context, f *Finding) {
	of := guard.Programs(p.Config.File) // before the workers: what a new worker starts now is none of them
	atWork, err := workers.New(p.db).AtWork(ctx)
	if err != nil {
		return // the finding says so
	}
	for _, w := range atWork {
		maps.DeleteFunc(of, func(_ int, id string) bool { return id == w.ID })
	}
	still := guard.Programs(p.Config.File) // a worker may just have ended
	maps.DeleteFunc(of, func(pid int, id string) bool { return still[pid] != id })
	for n, pid := range slices.Sorted(maps.Keys(of)) {
		if n == maxLeftovers {
			f.add(Wrong, fmt.Sprintf("and %d more", len(of)-n), "")
			return
		}
		f.add(Wrong, fmt.Sprintf("process %d is of a handler, and its worker %s has ended", pid, texts.Clean(of[pid])), fmt.Sprintf("kill -KILL %d", pid))
	}
}

const maxLeftovers = 10

// unmade returns whether a queue's tables were never made, if this user may know. The check of the tables reports it.
func (p *patient) unmade(ctx context.Context) func(queue string) bool {
	owned, err := p.db.Owned(ctx)
	return func(queue string) bool { return err == nil && !slices.Contains(owned[p.Config.Name], queue) }
}

func lookAtRights(ctx context.Context, p *patient) Finding {
	if p.isSQLite() {
		tx, err := p.db.SQL.BeginTx(ctx, nil) // IMMEDIATE: without the right to write, even this fails
		if err != nil {
			return trouble(fmt.Errorf("begin to write: %w", err))
		}
		_ = tx.Rollback()
		return found(OK, "this user may write the file")
	}
	unmade := p.unmade(ctx)
	made := slices.DeleteFunc(p.Config.QueueTables(), func(q schema.Queue) bool { return unmade(q.Name) })
	rights, err := schema.Grants(p.Config.Database, p.db.Names, made)
	if err != nil {
		return trouble(err)
	}
	var denied, grants []string
	for i, table := range rights.Tables {
		lacks, err := p.lacks(ctx, table)
		if err != nil {
			return trouble(err)
		}
		if len(lacks) > 0 {
			denied = append(denied, strings.Join(lacks, ", ")+" on "+table)
			grants = append(grants, rights.Worker[i])
		}
	}
	if len(denied) > 0 {
		return found(Wrong, "this user lacks "+strings.Join(denied, "; ")).but(strings.Join(grants, " "))
	}
	return found(OK, fmt.Sprintf("this user has the privileges that hipq needs on %d tables", len(rights.Tables)))
}

// lacks are this user's missing rights on a table. Explaining a statement needs the same rights as running it.
func (p *patient) lacks(ctx context.Context, table string) (rights []string, err error) {
	var column string
	const first = "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ? AND ordinal_position = 1"
	switch err := p.db.SQL.GetContext(ctx, &column, first, table); {
	case errors.Is(err, sql.ErrNoRows): // the table is missing, or invisible for this user
		column = "id"
	case err != nil:
		return nil, err
	}
	for _, right := range []struct{ name, statement string }{
		{"SELECT", "SELECT 1 FROM " + table},
		{"INSERT", "INSERT INTO " + table + " () VALUES ()"},
		{"UPDATE", "UPDATE " + table + " SET " + column + " = " + column + " WHERE 1 = 0"},
		{"DELETE", "DELETE FROM " + table + " WHERE 1 = 0"},
	} {
		_, err := p.db.SQL.ExecContext(ctx, p.db.SQL.Explain+right.statement)
		my, ok := errors.AsType[*mysql.MySQLError](err)
		switch {
		case ok && slices.Contains([]uint16{1044, 1142, 1143}, my.Number):
			rights = append(rights, right.name)
		case ok && my.Number != 1146: // a constraint, a default, a read-only server: no matter of rights
		case err != nil:
			return nil, err
		}
	}
	return rights, nil
}
