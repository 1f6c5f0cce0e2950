package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/queuetest"
)

// The changes of a zone's clock are registered from the year on in which the database is, whatever the host's clock says.
func TestRegisterZoneByTheDatabase(t *testing.T) {
	zone := must[*time.Location](t)(time.LoadLocation("Europe/Berlin"))
	in := queuetest.New(t, "shop", queue.Options{Name: "emails", Location: zone})
	for _, year := range []int{2024, 2031} {
		in.Clock.Set(time.Date(year, time.July, 1, 12, 0, 0, 0, time.UTC))
		must[any](t)(nil, (*store.Queue)(in.Queue("emails").Queue).Register(t.Context()))
		var text string
		must[any](t)(nil, in.DB.SQL.GetContext(t.Context(), &text, "SELECT settings FROM shop_queues"))
		var s struct{ Zone [][2]int64 }
		must[any](t)(nil, json.Unmarshal([]byte(text), &s))
		if want := time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC).Unix(); len(s.Zone) != 7 || s.Zone[0] != [2]int64{want, 3600} {
			t.Errorf("%d: %v", year, s.Zone)
		}
	}
}
