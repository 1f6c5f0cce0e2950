package texts_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
)

func TestDuration(t *testing.T) {
	const second, minute, hour = 1000, 60_000, 3_600_000
	for ms, want := range map[int64]string{
		0: "0 s", 999: "999 ms", second: "1 s", 1240: "1.2 s", 3_008: "3 s", 9_949: "9.9 s", 9_950: "10 s", 59_499: "59 s", 59_500: "1 min",
		minute: "1 min", 61 * second: "1 min 1 s", hour - 501: "59 min 59 s", hour - 500: "1 h", 2*hour + 5*minute: "2 h 5 min",
		24*hour - 30*second: "1 d", 24 * hour: "1 d", 52 * hour: "2 d 4 h",
	} {
		dbtest.Same(t, texts.Duration(time.Duration(ms)*time.Millisecond), want, "%d ms", ms)
	}
}
