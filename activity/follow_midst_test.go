package activity

import (
	"testing"
	"time"
)

// TestFollowGoesOnInTheMidst: of the newest so many, some were seen when the database went away; others are newer by then.
func TestFollowGoesOnInTheMidst(t *testing.T) {
	at := time.Now()
	seen := map[int64]time.Time{7: at, 8: at}
	if by := (Filter{Queue: "mail", Limit: 5}).goingOn(seen); by != (Filter{Queue: "mail", After: 6}) {
		t.Errorf("%+v", by)
	}
	if by := (Filter{Limit: 5, After: 3}).goingOn(nil); by != (Filter{Limit: 5, After: 3}) {
		t.Errorf("%+v", by)
	}
}
