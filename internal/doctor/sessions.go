package doctor

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// These checks are about what others may do to hipq: sessions of applications, and other users of this host.

// lookAtLoopback checks whether another user of this host could pretend to be the server.
func lookAtLoopback(_ context.Context, p *patient) Finding {
	addr := p.Config.Database.OnLoopback()
	if addr == "" {
		return found(OK, "the server is reached by a socket, or by TLS, or on another host")
	}
	remedy := "set database.tls, or name the server's socket in the DSN"
	if socket := p.variables["socket"]; socket != "" {
		remedy = "database.dsn: USER:PASSWORD@unix(" + socket + ")/DATABASE"
	}
	return found(Warning, "while the server restarts, another user of this host may listen on "+addr+" and get the password").
		but(remedy)
}

// lookAtSysdate checks whether a session can set the clock of the stored procedures: it can set NOW, which must not
// change SYSDATE.
func lookAtSysdate(ctx context.Context, p *patient) Finding {
	var same bool
	if err := p.db.SQL.GetContext(ctx, &same, "SELECT SLEEP(0.001) = 0 AND SYSDATE(6) = NOW(6)"); err != nil {
		return trouble(err)
	}
	if same {
		return found(Warning, "the server runs with sysdate-is-now, so a session that SETs timestamp sets the clock of the procedures that it calls").
			but("remove sysdate-is-now from my.cnf, and restart the server")
	}
	return found(OK, "the clock of the stored procedures is the server's, whatever a session sets")
}

// lookAtInsertID checks which queues accept a row from a session that has set insert_id. Its test row violates a
// constraint, unless a trigger refuses it first, so nothing is committed. The row's id of -1 uses up no other.
func lookAtInsertID(ctx context.Context, p *patient) Finding {
	conn, err := p.db.SQL.Conn(ctx)
	if err != nil {
		return trouble(err)
	}
	defer func() { // the connection must not be reused
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	}()
	for _, s := range []string{"SET insert_id = 1", "START TRANSACTION"} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return found(Unknown, err.Error())
		}
	}
	var open []string
	for _, q := range p.Config.Queues {
		table, err := p.db.CheckQueue(q.Name)
		if err == nil {
			_, err = conn.ExecContext(ctx, "INSERT INTO "+table+" (id, job_type, timeout) VALUES (-1, 'NONE', 0)")
		}
		switch my, _ := errors.AsType[*mysql.MySQLError](err); {
		case err == nil || my != nil && (my.Number == 4025 || my.Number == 3819): // a constraint of MariaDB, of MySQL
			open = append(open, table)
		case my == nil || my.Number != 31017: // the trigger's
			return found(Unknown, "can't tell whether the triggers exist: "+err.Error())
		}
	}
	if len(open) > 0 {
		return found(Warning, "a session that sets insert_id can keep everybody from adding jobs to "+strings.Join(open, ", ")).
			but("to prevent that, add the triggers of hipq init --print-grants")
	}
	return found(OK, "each queue has its trigger")
}

// lookAtIdleTransactions checks whether the server ends idle transactions. MySQL has no such setting.
func lookAtIdleTransactions(_ context.Context, p *patient) Finding {
	switch is := p.variables["idle_transaction_timeout"]; is {
	case "0":
		return found(Warning, "idle_transaction_timeout is 0: an open transaction of an application holds up jobs until its connection ends").
			but("SET GLOBAL idle_transaction_timeout = 60" + inConfiguration)
	case "":
		return found(OK, "this server can't end idle transactions")
	default:
		return found(OK, "idle_transaction_timeout is "+is)
	}
}

// lookAtPrepared looks for what others have prepared and left: transactions, and statements.
func lookAtPrepared(ctx context.Context, p *patient) Finding {
	f := p.transactions(ctx)
	switch open, most, err := p.statements(ctx); {
	case err != nil:
		return trouble(err)
	case open > most/2:
		f.add(Warning, fmt.Sprintf("%d of %d prepared statements are in use; with all in use, no program can call a stored procedure", open, most),
			"end the connections that leave theirs open; ALTER USER … WITH MAX_USER_CONNECTIONS 20 bounds a user's")
	}
	return f
}

// transactions looks for XA transactions that an application has prepared and neither committed nor rolled back. Such a
// transaction keeps its locks for ever, after its connection and over restarts.
func (p *patient) transactions(ctx context.Context) Finding {
	var lost int
	const query = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = 0"
	if err := p.db.SQL.GetContext(ctx, &lost, query); err != nil {
		return found(Unknown, "this user can't see transactions without a connection: "+err.Error()).but("GRANT PROCESS, or run hipq doctor as an administrator")
	}
	if lost == 0 {
		return found(OK, "there is no transaction without a connection")
	}
	what := texts.Count(lost, "transaction") + " without a connection may keep locks for ever, such as a job's key"
	var xids []struct {
		FormatID    int64 `db:"formatID"`
		GtridLength int   `db:"gtrid_length"`
		BqualLength int   `db:"bqual_length"`
		Data        []byte
	}
	if err := p.db.SQL.SelectContext(ctx, &xids, "XA RECOVER"); err != nil {
		return found(Wrong, what).but("as an administrator, XA RECOVER, and XA COMMIT or XA ROLLBACK: " + err.Error())
	}
	var ends []string
	for _, x := range xids {
		ends = append(ends, fmt.Sprintf("XA ROLLBACK X'%X', X'%X', %d;", x.Data[:x.GtridLength], x.Data[x.GtridLength:], x.FormatID))
	}
	return found(Wrong, what).but("unless its application still decides: " + cmp.Or(strings.Join(ends, " "), "wait until the server has rolled it back"))
}

// statements is how many prepared statements are in use, and how many may be. Each user can use them up for all others.
func (p *patient) statements(ctx context.Context) (open, most int, err error) {
	n := map[string]string{}
	read := engine.Pairs(n)
	err = p.db.SQL.Read(ctx, engine.Query{SQL: "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'", Scan: read},
		engine.Query{SQL: "SHOW GLOBAL VARIABLES LIKE 'max_prepared_stmt_count'", Scan: read})
	open, _ = strconv.Atoi(n["prepared_stmt_count"])
	most, _ = strconv.Atoi(n["max_prepared_stmt_count"])
	return open, most, err
}

// lookAtAutoIncrement checks whether one long insert blocks all others.
func lookAtAutoIncrement(_ context.Context, p *patient) Finding {
	is := p.variables["innodb_autoinc_lock_mode"]
	if is != "2" {
		return found(Warning, "innodb_autoinc_lock_mode is "+is+": an INSERT … SELECT into a queue holds up all other inserts there until it ends").
			but("set innodb_autoinc_lock_mode = 2 in my.cnf, and restart the server")
	}
	return found(OK, "innodb_autoinc_lock_mode is 2")
}
