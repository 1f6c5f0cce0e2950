// Package doctor looks at the world in which hipq runs: this host, the crontab, the database and its settings. The config itself is
// checked when it is read.
package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// Result is how a check has ended.
type Result string

// The results.
const (
	// OK: it is as it should be.
	OK Result = "ok"
	// Warning: hipq works, and somebody may want it otherwise.
	Warning Result = "warning"
	// Wrong: something doesn't work, or a promise doesn't hold.
	Wrong Result = "wrong"
	// Unknown: it can't be seen from here, or there was no answer.
	Unknown Result = "unknown"
)

// Finding is what a check has found.
type Finding struct {
	Check  string `json:"check"`
	Result Result `json:"result"`
	Found  string `json:"found"`
	// Remedy is what to do about it, in a sentence; nil if there is nothing to be done.
	Remedy *string `json:"remedy"`
}

func found(result Result, what string) Finding { return Finding{Result: result, Found: what} }

func (f Finding) but(remedy string) Finding {
	if remedy != "" {
		f.Remedy = &remedy
	}
	return f
}

// add tells more of the same thing. The worst of its results counts.
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

// trouble is what an error says of a check: that something is wrong, or that it is unknown.
func trouble(err error) Finding {
	kind, remedy := schema.Diagnose(err)
	if kind == schema.Misconfigured {
		return found(Wrong, err.Error()).but(remedy)
	}
	return found(Unknown, err.Error()).but(remedy)
}

// Options say what is looked at.
type Options struct {
	Config *config.Config
	// Handlers says what keeps the config's handlers from being run on this host, and which of them another user could have written.
	Handlers func() (troubles, foreign []string)
	// Now is this host's clock.
	Now func() time.Time
	// Etc is the folder of the system's crontabs and systemd's units, /etc.
	Etc string
	// Sendmail are the places of the program by which cron mails.
	Sendmail []string
}

type check struct {
	name string
	look func(context.Context, *patient) Finding
	// driver is the only one for which there is something to see; "" is both.
	driver string
}

// checks are all of a driver's, in the order in which they are told. Those that need no database come first, because it may keep silent.
func checks(driver string) []check {
	sqlite, mysql := engine.SQLite.Engine, engine.MySQL.Engine
	return slices.DeleteFunc([]check{
		{"config", lookAtConfig, ""},
		{"database_file", lookAtFile, sqlite},
		{"disk", lookAtDisk, sqlite},
		{"crontab_work", crontab("work", "each minute", eachMinute), ""},
		{"crontab_monitor", crontab("monitor", "each hour", eachHour), ""},
		{"crontab_purge", crontab("purge", "", ever), ""},
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
		{"auto_increment", lookAtAutoIncrement, mysql},
		{"durability", lookAtDurability, ""},
		{"rights_worker", lookAtRights, ""},
		{"tables", lookAtTables, ""},
		{"procedures", lookAtProcedures, mysql},
		{"shards", lookAtShards, ""},
		{"sizes", lookAtSizes, ""},
		{"workers", lookAtWorkers, ""},
		{"schedules", lookAtSchedules, ""},
	}, func(c check) bool { return c.driver != "" && c.driver != driver })
}

// Examine makes all checks, one after the other, and tells of each. It changes nothing, and may be repeated. When the context
// ends, it waits for nothing any more: what is left is unknown. It ends with tell's first error.
func Examine(ctx context.Context, o Options, tell func(Finding) error) error {
	all := checks(o.Config.Database.Driver)
	findings := make(chan Finding, len(all))
	go func() {
		p := &patient{Options: o, known: map[string]Finding{}}
		defer p.close()
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
					waits = false // what comes later would be taken for the next one's
				}
			}
		}
		if err := tell(f); err != nil {
			return err
		}
	}
	return nil
}

// patient is what the checks look at, and what they know of it by now.
type patient struct {
	Options
	known map[string]Finding
	db    *schema.DB
	// variables are the server's, as hipq's connections have them.
	variables map[string]string
	// nodes are the servers that the DSN names, once they were asked.
	nodes []node
}

func (p *patient) close() {
	if p.db != nil {
		_ = p.db.Close()
	}
}

// examine makes a check, unless it needs a database that wasn't reached.
func (p *patient) examine(ctx context.Context, c check) Finding {
	if _, asked := p.known["database"]; asked && p.db == nil {
		return found(Unknown, "the database was not reached")
	}
	return c.look(ctx, p)
}
