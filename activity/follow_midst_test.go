package activity

import (
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestFollowGoesOnInTheMidst: of the newest so many, some were seen when the database went away; others are newer by then.
func TestFollowGoesOnInTheMidst(t *testing.T) {
	at := time.Now()
	seen := map[int64]time.Time{7: at, 8: at}
	dbtest.Same(t, (Filter{Queue: "mail", Limit: 5}).goingOn(seen), (Filter{Queue: "mail", After: 6}))
	dbtest.Same(t, (Filter{Limit: 5, After: 3}).goingOn(nil), (Filter{Limit: 5, After: 3}))
}
