package schema

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// silence is how long the server may take to answer, unless the DSN says otherwise. longSilence is for commands that
// read much.
const (
	silence     = 10 * time.Second
	longSilence = 5 * time.Minute
)

// connector returns the factory of connections. It doesn't connect.
func (o Options) connector() (driver.Connector, error) {
	cfg, err := mysql.ParseDSN(o.DSN)
	if err != nil {
		// the driver's message may quote the DSN, and with it the password
		return nil, fmt.Errorf("%w: database.dsn is not of the form user:password@tcp(host:3306)/database", ErrConfig)
	}
	if cfg.DBName == "" {
		return nil, fmt.Errorf("%w: database.dsn names no database: user:password@tcp(host:3306)/database", ErrConfig)
	}
	if err := checkOptions(o.DSN, cfg); err != nil {
		return nil, err
	}
	servers, err := o.servers(cfg)
	if err != nil {
		return nil, err
	}
	begin := 0
	if len(o.Nodes) > 0 {
		name, _ := os.Hostname() // hosts without a name all start at the same node
		begin = NodeOf(cmp.Or(o.Host, name), len(servers))
	}
	if len(servers) == 1 {
		return o.session(servers[0])
	}
	var first driver.Connector
	list := make([]engine.Node, len(servers))
	for i, one := range servers {
		list[i].Name = one.Addr
		s, err := o.session(one)
		if err != nil {
			return nil, err
		}
		first = cmp.Or[driver.Connector](first, s)
		list[i].Connect = s.connectNode
	}
	return engine.Nodes(first, list, begin), nil
}

// session returns the factory of connections to one server.
func (o Options) session(cfg *mysql.Config) (s session, err error) {
	if o.TLS != nil {
		if cfg.TLS, err = o.TLS.config(cfg.Addr); err != nil {
			return s, err
		}
		cfg.AllowFallbackToPlaintext = false // or a server in the middle could read everything by claiming to have no TLS
	}
	if err := hidePassword(cfg); err != nil {
		return s, err
	}
	if err := cfg.Apply(mysql.BeforeConnect(o.beforeConnect)); err != nil {
		return s, err
	}
	s.variables, cfg.Params = cfg.Params, nil
	cfg.InterpolateParams = true // one round trip a statement instead of three
	cfg.MultiStatements = true   // Tx batches statements whose results it doesn't wait for
	cfg.ClientFoundRows = true   // an update that changes nothing has still found its row
	cfg.RejectReadOnly = false   // it would hide the server's error; preparedConn handles it
	cfg.ColumnsWithAlias = false // columns are found by name
	cfg.ParseTime = false        // Time reads the text itself, whatever the session's zone
	cfg.AllowAllFiles = false    // else the server could ask for any file of this host
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	cfg.Collation = "utf8mb4_bin"   // as in setUp, whatever the DSN says
	cfg.Logger = &mysql.NopLogger{} // it would print to stderr, which cron mails
	s.unlimited, err = mysql.NewConnector(cfg)
	// A server that neither answers nor hangs up must not block a tick, and what cron starts after it, for ever. A
	// migration may take as long as it needs.
	allowed := silence
	if o.Patient {
		allowed = longSilence
	}
	cfg.ReadTimeout, cfg.WriteTimeout = cmp.Or(cfg.ReadTimeout, allowed), cmp.Or(cfg.WriteTimeout, allowed)
	if err == nil {
		s.Connector, err = mysql.NewConnector(cfg)
	}
	if err != nil {
		return s, fmt.Errorf("%w: database.dsn has options that don't go together", ErrConfig) // the driver's message quotes them
	}
	return s, nil
}

func openMySQL(ctx context.Context, o Options) (*engine.DB, error) {
	connector, err := o.connector()
	if err != nil {
		return nil, err
	}
	db := engine.New(connector, engine.MySQL)
	db.SetConnMaxIdleTime(10 * time.Second) // before MySQL drops it
	if db.Dialect, err = knowServer(ctx, db); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// Address is the server's address for people: HOST:PORT, or several; "" for SQLite.
func (o Options) Address() string {
	cfg, err := mysql.ParseDSN(o.DSN)
	switch {
	case err != nil || o.DSN == "" || strings.ContainsAny(cfg.Addr, "()?"):
		return ""
	case len(o.Nodes) > 0:
		return strings.Join(o.Nodes, ", ")
	}
	return strings.Join(addresses(cfg), ", ")
}

// WithoutPassword is a DSN for people: *** replaces the password and the values of the options, which may hold one too.
// An invalid DSN becomes "***".
func WithoutPassword(dsn string) string {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil || dsn == "" || strings.ContainsAny(cfg.Addr, "()?") { // then the driver took a slash in an option for the last one
		return "***"
	}
	text := cfg.User
	if cfg.Passwd != "" {
		text += ":***"
	}
	database, options := dsnOptions(dsn)
	text += fmt.Sprintf("@%s(%s)/%s", cfg.Net, strings.Join(addresses(cfg), ","), database)
	for i, option := range options {
		name, _, named := strings.Cut(option, "=")
		if !named || !isOptionName(name) {
			name = "***"
		}
		text += string("?&"[min(i, 1)]) + name + "=***"
	}
	return text
}

// dsnOptions splits a DSN as the driver does, into the database and the options, each NAME=value.
func dsnOptions(dsn string) (database string, options []string) {
	database, text, given := strings.Cut(dsn[strings.LastIndex(dsn, "/")+1:], "?")
	if given {
		options = strings.Split(text, "&")
	}
	return database, options
}

var optionWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// isOptionName reports whether name can be a driver option or a server variable. It checks the length in code, because
// a count in the expression is slow to compile.
func isOptionName(name string) bool { return len(name) <= 64 && optionWord.MatchString(name) }

// knowServer identifies the server in one round trip, and refuses an unsuitable one.
func knowServer(ctx context.Context, db *engine.DB) (engine.Dialect, error) {
	var version string
	set := map[string]string{} // no server has all of them
	err := db.Read(ctx,
		engine.Query{SQL: "SELECT VERSION()", Scan: engine.Row(&version)},
		engine.Query{SQL: "SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'log_bin', 'binlog_format', 'max_allowed_packet')", Scan: engine.Pairs(set)},
	)
	switch {
	case engine.IsLockTimeout(err): // these lock nothing: the node waits for what the others have committed
		err = engine.ErrBehind
	case err == nil:
		err = checkVersion(version)
	}
	if err == nil && set["log_bin"] == "ON" && set["binlog_format"] == "STATEMENT" {
		err = fmt.Errorf("%w: the server's binlog_format is STATEMENT, which allows no write in READ COMMITTED, as hipq does:"+
			" SET GLOBAL binlog_format = ROW (or MIXED), and in the server's configuration too", ErrConfig)
	}
	d := engine.MySQL
	if set["wsrep_on"] == "ON" {
		d = engine.Galera()
	}
	if n, bad := strconv.Atoi(set["max_allowed_packet"]); bad == nil {
		d.Packet = max(n-1024, 1)
	}
	if !strings.Contains(version, "MariaDB") {
		d.UpdateAtOnce = "" // MySQL has no lock wait shorter than a second, nor one for a single statement
	}
	return d, err
}

// ownVariables are server variables that hipq sets on each connection, so a DSN must not set them.
var ownVariables = []string{
	"autocommit", "character_set_client", "character_set_connection", "character_set_results", "check_constraint_checks",
	"collation_connection", "completion_type", "idle_transaction_timeout", "in_predicate_conversion_threshold",
	"information_schema_stats_expiry", "innodb_lock_wait_timeout", "lock_wait_timeout", "sql_auto_is_null", "sql_mode",
	"sql_safe_updates", "sql_select_limit", "time_zone", "transaction_isolation", "tx_isolation", "unique_checks", "wait_timeout",
}

// givenVariables must stay as the server sets them: the clock, row ids, and whether writes are accepted and reach
// replicas and the cluster.
var givenVariables = []string{
	"insert_id", "skip_replication", "sql_log_bin", "timestamp", "transaction_read_only", "tx_read_only", "wsrep_on", "wsrep_osu_method",
}

// checkOptions refuses DSN options that would break hipq. Its errors show no values.
func checkOptions(dsn string, cfg *mysql.Config) error {
	_, options := dsnOptions(dsn)
	for i, option := range options {
		name, value, named := strings.Cut(option, "=")
		switch {
		case option == "":
		case !named || !isOptionName(name):
			return fmt.Errorf("%w: database.dsn: option %d is not of the form NAME=value", ErrConfig, i+1)
		case name == "charset" && value != "utf8mb4":
			return fmt.Errorf("%w: database.dsn: charset is not utf8mb4; leave it out", ErrConfig)
		}
	}
	if cfg.AllowAllFiles {
		return fmt.Errorf("%w: database.dsn: allowAllFiles would let the server read any file of this host; leave it out", ErrConfig)
	}
	if cfg.Collation != "" && !strings.HasPrefix(cfg.Collation, "utf8mb4_") {
		return fmt.Errorf("%w: database.dsn: collation is not one of utf8mb4; leave it out", ErrConfig)
	}
	for name := range cfg.Params {
		if slices.Contains(ownVariables, strings.ToLower(name)) {
			return fmt.Errorf("%w: database.dsn: hipq sets %s itself; leave it out", ErrConfig, name)
		}
		if slices.Contains(givenVariables, strings.ToLower(name)) {
			return fmt.Errorf("%w: database.dsn: hipq needs %s as the server has it; leave it out", ErrConfig, name)
		}
	}
	return nil
}

// session sets up each connection once. READ COMMITTED for each transaction would cost a round trip each. By default,
// MariaDB turns a list of 1,000 ids into a table to join with, and scans all jobs. in_predicate_conversion_threshold prevents that.
//
// No hipq transaction may block others for long. The server drops an idle one after some seconds, because it would
// otherwise keep the locks of a vanished client for hours. (MySQL can only time out all idle sessions.)
// A transaction waits a few seconds for locks, and is then repeated for as long as Tx has patience.
//
// Parameters are interpolated. In another character set, some of their bytes would read as quotes. So the session sets
// its own after the DSN and the server's init_connect, and checks the result.
//
// MySQL would cache next ids and table sizes for up to a day. information_schema_stats_expiry prevents that.
//
// Versioned comments hold the variables that only one kind of server has.
type session struct {
	driver.Connector
	// unlimited makes connections that wait for the server for as long as it takes.
	unlimited driver.Connector
	// variables are the server variables that the DSN sets.
	variables map[string]string
}

const (
	setSession = "SET NAMES utf8mb4 COLLATE utf8mb4_bin, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, completion_type = 'NO_CHAIN'," +
		" unique_checks = 1, sql_select_limit = 18446744073709551615, sql_safe_updates = 0, sql_auto_is_null = 0," +
		" /*M! tx_isolation = 'READ-COMMITTED', in_predicate_conversion_threshold = 0, idle_transaction_timeout = 10," +
		" check_constraint_checks = 0, */" +
		" /*!80000 transaction_isolation = 'READ-COMMITTED', wait_timeout = 20, information_schema_stats_expiry = 0, */ time_zone = '+00:00'"
	// hurried, lent and patient set how long a statement waits for locks: in an application's pool only for a second, because the
	// caller may hold them itself. A migration's is tried again as often as it must: a longer
	// wait would hold up everybody else's statements on the table.
	hurried = ", innodb_lock_wait_timeout = 3, lock_wait_timeout = 5"
	lent    = ", innodb_lock_wait_timeout = 1, lock_wait_timeout = 5"
	patient = ", innodb_lock_wait_timeout = 3600, lock_wait_timeout = 1"
)

type unlimitedKey struct{}

// unlimited is a connector of sessions, or of nodes, that makes their unlimited connections.
type unlimited struct{ driver.Connector }

func (c unlimited) Connect(ctx context.Context) (driver.Conn, error) {
	return c.Connector.Connect(context.WithValue(ctx, unlimitedKey{}, true))
}

func (c session) Connect(ctx context.Context) (driver.Conn, error) {
	from := c.Connector
	if ctx.Value(unlimitedKey{}) != nil {
		from = c.unlimited
	}
	conn, err := from.Connect(context.WithValue(ctx, greetingKey{}, &greeting{}))
	if err != nil {
		if err.Error() == "bad connection" { // the driver's error if a server hangs up during the handshake
			err = driver.ErrBadConn
		}
		return nil, ownWords(err)
	}
	if err = c.setVariables(ctx, conn.(driver.ExecerContext)); err == nil {
		err = setUp(ctx, conn.(driver.QueryerContext))
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// setVariables replaces the driver's, whose error quotes the value that the server refused.
func (c session) setVariables(ctx context.Context, conn driver.ExecerContext) error {
	if len(c.variables) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(c.variables))
	list := texts.Map(names, func(name string) string { return name + " = " + c.variables[name] })
	_, err := conn.ExecContext(ctx, "SET "+strings.Join(list, ", "), nil)
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		if trouble, _ := Diagnose(err); trouble == TryLater {
			return err
		}
		return fmt.Errorf("%w: database.dsn: the server refuses to set %s, or the given value (error %d)", ErrConfig, strings.Join(names, ", "), my.Number)
	}
	return err
}

// setUp sets up a connection and checks its character set, in one round trip.
func setUp(ctx context.Context, conn driver.QueryerContext) error {
	rows, err := conn.QueryContext(ctx, setSession+hurried+"; SELECT @@character_set_client, @@character_set_connection", nil)
	if err != nil {
		return err
	}
	got := make([]driver.Value, 2)
	err = rows.Next(got)
	names := []string{fmt.Sprintf("%s", got[0]), fmt.Sprintf("%s", got[1])} // copied now, because Close reads into the same bytes
	if err = cmp.Or(err, rows.Close()); err != nil {
		return fmt.Errorf("set up a connection: %w", err)
	}
	for _, name := range names {
		if name != "utf8mb4" {
			return fmt.Errorf("%w: the server keeps a connection's character set at %q, hipq needs utf8mb4", ErrConfig, name)
		}
	}
	return nil
}

// checkVersion refuses a server without SKIP LOCKED or expressions as defaults.
func checkVersion(version string) error {
	need, name := [3]int{8, 0, 13}, "MySQL"
	switch {
	case strings.Contains(version, "TiDB"):
		return fmt.Errorf("%w: the server is TiDB, which hipq is not tested with; hipq needs MariaDB 10.6 or MySQL 8.0.13, or newer", ErrConfig)
	case strings.Contains(version, "Vitess"):
		return fmt.Errorf("%w: the server is Vitess, in whose failovers workers end: connect to a MySQL server instead, with an instance of hipq in each; docs/explanation/scaling.md says how", ErrConfig)
	case strings.Contains(version, "MariaDB"):
		need, name = [3]int{10, 6, 0}, "MariaDB"
		version = strings.TrimPrefix(version, "5.5.5-") // a prefix for old replicas, not a version
	}
	var got [3]int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &got[0], &got[1], &got[2]); err != nil {
		return nil //nolint:nilerr // a version without numbers is accepted
	}
	if slices.Compare(got[:], need[:]) < 0 {
		return fmt.Errorf("%w: the server is %s %d.%d.%d, hipq needs %d.%d.%d or newer", ErrConfig, name,
			got[0], got[1], got[2], need[0], need[1], need[2])
	}
	return nil
}
