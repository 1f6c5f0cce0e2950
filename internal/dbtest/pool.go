package dbtest

import (
	"context"
	"database/sql"
	"maps"
	"net/url"
	"strings"
	"testing"
)

// Pool is an application's pool to the database from Each, with few connections and with settings that hipq's own connections
// lack. When the test ends, no connection may be in use, and the sessions must be unchanged.
func Pool(t testing.TB, driver, source string) *sql.DB {
	t.Helper()
	dsn := source + "?" + url.Values{
		"_time_format": {"sqlite"}, "_texttotime": {"1"}, "_timezone": {"Europe/Berlin"},
		"_pragma": {"busy_timeout(2000)", "synchronous(normal)"},
	}.Encode()
	if driver == "mysql" {
		dsn = source + string("?&"[min(strings.Count(source, "?"), 1)]) + url.Values{
			"parseTime": {"true"}, "loc": {"Europe/Berlin"}, "columnsWithAlias": {"true"}, "charset": {"latin1"},
			"time_zone": {"'+05:30'"}, "sql_mode": {"'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,IGNORE_SPACE'"},
			"sql_select_limit": {"7"}, "innodb_lock_wait_timeout": {"11"}, "unique_checks": {"0"}, "sql_safe_updates": {"1"},
		}.Encode()
	}
	pool := Must(sql.Open(driver, dsn))(t)
	const connections = 8
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	before := session(t, pool, driver)
	t.Cleanup(func() {
		defer func() { _ = pool.Close() }()
		if n := pool.Stats().InUse; n > 0 {
			t.Errorf("%d of the application's connections have not been given back", n)
			return
		}
		for range pool.Stats().OpenConnections {
			conn, err := pool.Conn(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			altered := sessionOf(t, conn, driver)
			maps.DeleteFunc(altered, func(name, value string) bool { return before[name] == value })
			Ensure(t, len(altered) == 0, "a session of the application's was altered: %v", altered)
		}
	})
	return pool
}

func session(t testing.TB, pool *sql.DB, driver string) map[string]string {
	t.Helper()
	conn := Must(pool.Conn(context.Background()))(t)
	defer conn.Close()
	return sessionOf(t, conn, driver)
}

// sessionOf returns a session's settings.
func sessionOf(t testing.TB, conn *sql.Conn, driver string) map[string]string {
	t.Helper()
	query := "SHOW SESSION VARIABLES"
	if driver == "sqlite" {
		query = "SELECT 'busy_timeout', timeout FROM pragma_busy_timeout UNION ALL SELECT 'synchronous', synchronous FROM pragma_synchronous"
	} else if _, err := conn.ExecContext(context.Background(), "SET sql_select_limit = 18446744073709551615"); err != nil {
		t.Fatal(err) // otherwise it applies to this query too
	}
	settings := Must(Pairs(context.Background(), conn, query))(t)
	// every statement changes these
	maps.DeleteFunc(settings, func(name, _ string) bool {
		switch name {
		case "timestamp", "statement_id", "identity", "last_insert_id", "insert_id", "error_count", "warning_count", "pseudo_thread_id", "last_gtid":
			return true
		}
		return strings.HasPrefix(name, "rand_seed") || strings.HasPrefix(name, "gtid_") || strings.HasPrefix(name, "rpl_")
	})
	return settings
}
