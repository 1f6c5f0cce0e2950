package policy

import (
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

func TestTimeoutError(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1s", 10 * time.Second: "10s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h",
		100 * time.Minute: "1h40m", time.Hour + 5*time.Second: "1h0m5s", 24 * time.Hour: "24h", 1100 * time.Millisecond: "1.1s",
	} {
		got := TimeoutError(d).Error()
		dbtest.Ensure(t, got == "timeout after "+want, "%v: %s, want %s", d, got, want)
	}
}
