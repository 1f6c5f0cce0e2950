package schema_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// What hipq puts behind the longest name of a table is short enough for MySQL, in every order.
func TestLongestTableName(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		names, err := schema.NewNamesFunc("shop", func(_, queue string) string { return (queue + "_" + strings.Repeat("x", 51))[:51] })
		dbtest.OK(t, err)
		db, err := schema.Open(t.Context(), schema.Options{Driver: driver, Path: source, DSN: source, Create: true}, names)
		dbtest.OK(t, err)
		defer func() { _ = db.Close() }()
		for _, order := range []schema.Order{schema.OrderSchedule, schema.OrderHighest, schema.OrderLowest} {
			_, err := db.Migrate(t.Context(), []schema.Queue{{Name: "emails", Order: order}})
			dbtest.Ensure(t, err == nil, "%q: %v", order, err)
			_, err = db.MakeProcedures(t.Context(), []schema.Queue{{Name: "emails", Order: order}})
			dbtest.Ensure(t, err == nil, "%q: %v", order, err)
		}
		_, err = schema.NewNamesFunc("shop", func(_, queue string) string { return (queue + "_" + strings.Repeat("x", 52))[:52] })
		dbtest.Ensure(t, errors.Is(err, schema.ErrName), "a name of 52: %v", err)
	})
}
