package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"testing"

	"github.com/hipq/hipq/schema"
)

// Section is a config's section for the database from Each.
func Section(driver, source string) string {
	return fmt.Sprintf("{driver: %s, %s: %q}", driver, map[string]string{"sqlite": "path", "mysql": "dsn"}[driver], source)
}

// Open opens the database from Each, with the tables of instance "shop" and these queues. Opened again, it is the same
// database on new connections.
func Open(t testing.TB, driver, source string, queues ...string) *schema.DB {
	t.Helper()
	db := Must(open(t, driver, source))(t)
	t.Cleanup(func() {
		if err := db.SQL.Close(); err != nil {
			t.Error(err)
		}
	})
	migrate(t, db, queues)
	return db
}

// Exec executes statements in turn, on a database or one of its connections.
func Exec(t testing.TB, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statements ...string,
) {
	t.Helper()
	for _, s := range statements {
		_, err := db.ExecContext(context.Background(), s)
		Require(t, err == nil, "%s: %v", s, err)
	}
}

func migrate(t testing.TB, db *schema.DB, queues []string) {
	t.Helper()
	tables := make([]schema.Queue, len(queues))
	for i, q := range queues {
		tables[i].Name = q
	}
	Must(db.Migrate(t.Context(), tables))(t)
}

// poolVar, if set, makes Open use an application's pool, to run all tests on one.
const poolVar = "HIPQ_TEST_POOL"

func open(t testing.TB, driver, source string) (*schema.DB, error) {
	if os.Getenv(poolVar) == "" {
		o := schema.Options{Driver: driver, Path: source, DSN: source, Create: true, Patient: true}
		if _, test := t.(*testing.T); test { // tests need not survive a power cut; benchmarks measure that
			o.Parameters = url.Values{"_pragma": {"synchronous(off)"}}
		}
		return schema.Open(t.Context(), o, schema.Named("shop"))
	}
	return schema.FromPool(t.Context(), Pool(t, driver, source), schema.Named("shop"))
}
