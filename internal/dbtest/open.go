package dbtest

import (
	"fmt"
	"os"
	"testing"

	"github.com/hipq/hipq/schema"
)

// Must ends the test where there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Section is what a config says of the database that Each named.
func Section(driver, source string) string {
	return fmt.Sprintf("{driver: %s, %s: %q}", driver, map[string]string{"sqlite": "path", "mysql": "dsn"}[driver], source)
}

// Open opens the database that Each named, with the tables of instance "shop" and these queues. Opened again, it is the
// same database on connections of its own.
func Open(t testing.TB, driver, source string, queues ...string) *schema.DB {
	t.Helper()
	db, err := open(t, driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	tables := make([]schema.Queue, len(queues))
	for i, q := range queues {
		tables[i].Name = q
	}
	if _, err := db.Migrate(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	return db
}

// poolVar, if it is set, makes Open open databases on an application's pool: so that whatever is tested with hipq's own
// connections can be tried there too.
const poolVar = "HIPQ_TEST_POOL"

func open(t testing.TB, driver, source string) (*schema.DB, error) {
	if os.Getenv(poolVar) == "" {
		return schema.Open(t.Context(), schema.Options{Driver: driver, Path: source, DSN: source, Create: true}, schema.Named("shop"))
	}
	return schema.FromPool(t.Context(), Pool(t, driver, source), schema.Named("shop"))
}
