// Package doctor checks hipq's environment: the host, the crontab, the database and its settings. Loading the config
// checks the config itself.
package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// Result is the result of a check.
type Result string

// The results.
const (
	// OK: as it should be.
	OK Result = "ok"
	// Warning: hipq works, but somebody may want to change this.
	Warning Result = "warning"
	// Wrong: something doesn't work, or a promise is broken.
	Wrong Result = "wrong"
	// Unknown: not visible from here, or no answer.
	Unknown Result = "unknown"
)

// Finding is what a check has found.
type Finding struct {
	// Check is the name of the check.
	Check string `json:"check"`
	// Result is "ok", "warning", "wrong" or "unknown".
	Result Result `json:"result"`
	// Found is the finding in words.
	Found string `json:"found"`
	// Remedy is what to do, in a sentence; nil if nothing.
	Remedy *string `json:"remedy"`
}

func found(result Result, what string) Finding { return Finding{Result: result, Found: what} }

func (f Finding) but(remedy string) Finding {
	if remedy != "" {
		f.Remedy = &remedy
	}
	return f
}

// add adds a further result. The worst one counts.
func (f *Finding) add(r Result, what, remedy string) {
	if severity(r) > severity(f.Result) {
		f.Result = r
	}
	f.Found = joined(f.Found, what)
	if f.Remedy != nil {
		remedy = joined(*f.Remedy, remedy)
	}
	*f = f.but(remedy)
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

func severity(r Result) int { return slices.Index([]Result{OK, Unknown, Warning, Wrong}, r) }

// trouble turns an error into a finding: something is wrong, such as a lost connection, or the result is unknown.
func trouble(err error) Finding {
	kind, remedy := schema.Diagnose(err)
	if kind == schema.Misconfigured || engine.IsUnreachable(err) {
		return found(Wrong, err.Error()).but(remedy)
	}
	return found(Unknown, err.Error()).but(remedy)
}

// Options are what to check.
type Options struct {
	Config *config.Config
	// Handlers returns why handlers of the config can't run on this host, and which ones another user could have written.
	Handlers func() (troubles, foreign []string)
	// Now is this host's clock.
	Now func() time.Time
	// Etc is the folder of the system's crontabs and systemd units, /etc.
	Etc string
	// Sendmail are the possible paths of cron's mail program.
	Sendmail []string
}

type check struct {
	name string
	look func(context.Context, *patient) Finding
	// driver is the only driver that the check is for; "" means both.
	driver string
}

// checks are a driver's checks, in the order of their report. Those without a database come first, because it may not answer.
func checks(driver string) []check {
	sqlite, mysql := engine.SQLite.Engine, engine.MySQL.Engine
	return slices.DeleteFunc([]check{
		{"config", lookAtConfig, ""},
		{"database_file", lookAtFile, sqlite},
		{"disk", lookAtDisk, sqlite},
		{"crontab_work", crontab("work", "each minute", eachMinute), ""},
		{"crontab_monitor", crontab("monitor", "each hour", eachHour), ""},
		{"crontab_purge", crontab("purge", "", func([]string) bool { return true }), ""},
		{"crontab_mail", lookAtMail, ""},
		{"handlers", lookAtHandlers, ""},
		{"database", lookAtDatabase, ""},
		{"loopback", lookAtLoopback, mysql},
		{"nodes", lookAtNodes, mysql},
		{"node_clocks", lookAtNodeClocks, mysql},
		{"clock", lookAtClock, ""},
		{"isolation", lookAtIsolation, ""},
		{"time_zone", lookAtZone, ""},
		{"packet", lookAtPacket, mysql},
		{"sysdate", lookAtSysdate, mysql},
		{"insert_id", lookAtInsertID, mysql},
		{"idle_transactions", lookAtIdleTransactions, mysql},
		{"prepared", lookAtPrepared, mysql},
		{"auto_increment", lookAtAutoIncrement, mysql},
		{"durability", lookAtDurability, ""},
		{"rights_worker", lookAtRights, ""},
		{"tables", lookAtTables, ""},
		{"procedures", made((*schema.DB).CheckProcedures, "CREATE ROUTINE", ", as after a dump without --routines"), mysql},
		{"views", made((*schema.DB).CheckViews, "SHOW VIEW", ""), ""},
		{"shards", lookAtShards, ""},
		{"sizes", lookAtSizes, ""},
		{"workers", lookAtWorkers, ""},
		{"schedules", lookAtSchedules, ""},
	}, func(c check) bool { return c.driver != "" && c.driver != driver })
}

// Examine makes all checks in turn, and calls tell with each finding. It changes nothing, and may be repeated. When ctx
// ends, the remaining findings are Unknown. It stops with tell's first error.
func Examine(ctx context.Context, o Options, tell func(Finding) error) error {
	all := checks(o.Config.Database.Driver)
	findings := make(chan Finding, len(all))
	go func() {
		p := &patient{Options: o, known: map[string]Finding{}}
		defer func() {
			if p.db != nil {
				_ = p.db.Close()
			}
		}()
		for _, c := range all {
			f := p.examine(ctx, c)
			f.Check = c.name
			p.known[c.name] = f
			findings <- f
		}
	}()
	waits := true
	for _, c := range all {
		f := Finding{Check: c.name, Result: Unknown, Found: "no answer within the timeout"}
		if waits {
			select {
			case f = <-findings:
			case <-ctx.Done():
				select {
				case f = <-findings:
				default:
					waits = false // a later finding would count for the next check
				}
			}
		}
		if err := tell(f); err != nil {
			return err
		}
	}
	return nil
}

// patient is what the checks examine, and their findings so far.
type patient struct {
	Options
	known map[string]Finding
	db    *schema.DB
	// variables are the server's variables in hipq's connections.
	variables map[string]string
	// nodes are the servers of the DSN, once asked.
	nodes []node
}

// examine makes a check, unless it needs a database that was not reached.
func (p *patient) examine(ctx context.Context, c check) Finding {
	if _, asked := p.known["database"]; asked && p.db == nil {
		return found(Unknown, "the database was not reached")
	}
	return c.look(ctx, p)
}
