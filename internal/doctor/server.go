package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/schema"
)

func lookAtDatabase(ctx context.Context, p *patient) Finding {
	names, err := p.Config.Names()
	if err != nil {
		return found(Wrong, err.Error())
	}
	db, err := schema.Open(ctx, p.Config.Database, names)
	if err != nil {
		_, remedy := schema.Diagnose(err)
		if errors.Is(err, schema.ErrAbsent) {
			remedy = noFile
		}
		return found(Wrong, err.Error()).but(remedy)
	}
	name, version, place := "SQLite ", "", p.Config.Database.Path
	if db.SQL.Engine == engine.SQLite.Engine {
		err = db.SQL.GetContext(ctx, &version, "SELECT sqlite_version()")
	} else {
		p.variables, err = serverVariables(ctx, db)
		name, version, place = "MySQL ", p.variables["version"], schema.WithoutPassword(p.Config.Database.DSN)
	}
	if err != nil {
		_ = db.Close() // the next checks would take missing variables for wrong
		return trouble(err)
	}
	if p.db = db; strings.Contains(version, "MariaDB") {
		name = ""
	}
	if p.isGalera() {
		name = "a node of a Galera cluster, " + name
	}
	return found(OK, name+version+", "+place)
}

// serverVariables are the server variables that the checks need, from hipq's connection, and the global
// idle_transaction_timeout, which hipq sets in its own sessions. No server has all.
func serverVariables(ctx context.Context, db *schema.DB) (map[string]string, error) {
	const session = "SHOW VARIABLES WHERE Variable_name IN ('version', 'wsrep_on', 'wsrep_sync_wait', 'tx_isolation', 'transaction_isolation'," +
		" 'time_zone', 'max_allowed_packet', 'log_bin', 'sync_binlog', 'innodb_flush_log_at_trx_commit'," +
		" 'innodb_flush_method', 'innodb_doublewrite', 'innodb_autoinc_lock_mode', 'socket')"
	all := map[string]string{}
	const global = "SHOW GLOBAL VARIABLES LIKE 'idle_transaction_timeout'"
	read := engine.Pairs(all)
	err := db.SQL.Read(ctx, engine.Query{SQL: session, Scan: read}, engine.Query{SQL: global, Scan: read})
	return all, texts.Wrap(err, "ask for the server's settings")
}

// inConfiguration ends a remedy that would otherwise be lost when the server restarts.
const inConfiguration = " (in my.cnf too)"

func (p *patient) isGalera() bool { return p.variables["wsrep_on"] == "ON" }

func (p *patient) isSQLite() bool { return p.db.SQL.Engine == engine.SQLite.Engine }

// skew is how far this host's clock may be from the database's.
const skew = 5 * time.Second

// lookAtClock compares this host's clock with the database's, which decides. The host's clock only affects what people
// see and when cron starts.
func lookAtClock(ctx context.Context, p *patient) Finding {
	before := p.Now()
	now, err := p.db.SQL.Clock(ctx)
	if err != nil {
		return trouble(err)
	}
	after := p.Now()
	off, which := now.Sub(after), "behind"
	if ahead := before.Sub(now); ahead > off {
		off, which = ahead, "ahead of"
	}
	if off > skew {
		return found(Warning, fmt.Sprintf("this host's clock is %s %s the database's, which decides", off.Round(time.Second), which)).
			but("have NTP set both clocks (timedatectl set-ntp true)")
	}
	return found(OK, fmt.Sprintf("this host's and the database's are the same, give or take %s", max(off, after.Sub(before), time.Second).Round(time.Second)))
}

func lookAtIsolation(_ context.Context, p *patient) Finding {
	if p.isSQLite() {
		return found(OK, "one writer at a time")
	}
	is := cmp.Or(p.variables["transaction_isolation"], p.variables["tx_isolation"])
	if is != "READ-COMMITTED" {
		return found(Wrong, "hipq's connections use "+is+", but need READ-COMMITTED").but("make sure that no proxy between hipq and the server changes the session")
	}
	return found(OK, is)
}

func lookAtZone(_ context.Context, p *patient) Finding {
	if zone := p.variables["time_zone"]; !p.isSQLite() && zone != "+00:00" {
		return found(Wrong, "hipq's connections use "+zone+", but need UTC").but("make sure that no proxy between hipq and the server changes the session")
	}
	return found(OK, "times in tables are UTC, the config's zone is "+p.Config.Location.String())
}

// leastPacket is the packet that a server must accept: results and errors of up to 1 MiB each, which quoting may double.
const leastPacket = 8 << 20

func lookAtPacket(_ context.Context, p *patient) Finding {
	n, err := strconv.ParseInt(p.variables["max_allowed_packet"], 10, 64)
	if err != nil {
		return found(Unknown, err.Error())
	}
	what := "max_allowed_packet is " + texts.Size(n)
	if n < leastPacket {
		return found(Wrong, what+": large jobs are refused, and large results become errors").
			but("SET GLOBAL max_allowed_packet = 16777216" + inConfiguration)
	}
	return found(OK, what)
}

func lookAtDurability(ctx context.Context, p *patient) Finding {
	if p.isSQLite() {
		return p.durabilityOfSQLite(ctx)
	}
	f := found(OK, "each commit is on disk before it is confirmed")
	flush, method := p.variables["innodb_flush_log_at_trx_commit"], p.variables["innodb_flush_method"]
	switch {
	case flush != "1" && p.isGalera():
		return found(Warning, "innodb_flush_log_at_trx_commit is "+flush+": the last second's jobs are lost if all nodes of the cluster crash at once").
			but("SET GLOBAL innodb_flush_log_at_trx_commit = 1" + inConfiguration)
	case flush != "1":
		who := map[string]string{"0": "the server, or its host, crashes"}[flush]
		return found(Wrong, "innodb_flush_log_at_trx_commit is "+flush+": up to a second's accepted jobs are lost if "+cmp.Or(who, "the server's host crashes")).
			but("SET GLOBAL innodb_flush_log_at_trx_commit = 1" + inConfiguration)
	case method == "nosync" || method == "littlesync":
		return found(Wrong, "innodb_flush_method is "+method+": accepted jobs are lost if the server's host crashes").
			but("remove innodb_flush_method from my.cnf, and restart the server")
	case strings.HasPrefix(p.variables["innodb_doublewrite"], "OFF"):
		f = found(Warning, "innodb_doublewrite is OFF: a page that was half written in a crash can't be repaired, unless the file system writes whole pages").
			but("set innodb_doublewrite = ON in my.cnf, and restart the server")
	case p.variables["log_bin"] == "ON" && p.variables["sync_binlog"] != "1":
		f = found(Warning, "sync_binlog is "+p.variables["sync_binlog"]+": after a crash of its host the binary log may lack jobs, and so may replicas and restores").
			but("SET GLOBAL sync_binlog = 1" + inConfiguration)
	}
	return f
}

func (p *patient) durabilityOfSQLite(ctx context.Context) Finding {
	var journal string
	if err := p.db.SQL.GetContext(ctx, &journal, "PRAGMA journal_mode"); err != nil {
		return trouble(err)
	}
	if journal != "wal" {
		return found(Warning, "journal_mode is "+journal+", not wal: readers and the writer wait for each other").
			but("move database.path to a local file system that supports shared memory")
	}
	return found(OK, "each commit is on disk before it is confirmed (synchronous FULL, journal_mode wal)")
}
