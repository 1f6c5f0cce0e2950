package doctor

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"
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

// lookAtAutoIncrement checks whether one long insert blocks all others.
func lookAtAutoIncrement(_ context.Context, p *patient) Finding {
	is := p.variables["innodb_autoinc_lock_mode"]
	if is != "2" {
		return found(Warning, "innodb_autoinc_lock_mode is "+is+": an INSERT … SELECT into a queue holds up all other inserts there until it ends").
			but("set innodb_autoinc_lock_mode = 2 in my.cnf, and restart the server")
	}
	return found(OK, "innodb_autoinc_lock_mode is 2")
}
