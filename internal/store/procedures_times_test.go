package store_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// out calls a procedure on one connection and returns the last parameter, which the procedure sets; NULL is "NULL".
func (s env) out(conn session, name string, args ...any) string {
	s.t.Helper()
	marks := strings.Repeat("?, ", len(args))
	conn.exec("CALL "+name+"("+marks+"@got)", args...)
	var got sql.NullString
	must[any](s.t)(nil, conn.QueryRowContext(s.t.Context(), "SELECT @got").Scan(&got))
	if !got.Valid {
		return "NULL"
	}
	return got.String
}

// The procedures decide as Go does.
func TestProceduresRules(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		t.Run("opening", func(t *testing.T) { s.testOpening(t) })
		t.Run("windows", func(t *testing.T) { s.testWindows(t) })
		t.Run("delay", func(t *testing.T) { s.testDelay(t) })
	})
}

// SQL opens windows when Go does, whatever the zone's clock does.
func (s env) testOpening(t *testing.T) {
	conn := s.conn()
	year := time.Now().UTC().Year()
	random := rand.New(rand.NewPCG(1, uint64(year)))
	days := []string{"", "mon-fri ", "sat,sun ", "sun ", "fri-mon ", "tue,thu-sat "}
	window := func() string {
		from, to := random.IntN(96)*15, random.IntN(97)*15
		if from == to {
			to = from + 15
		}
		return fmt.Sprintf("%s%02d:%02d-%02d:%02d", days[random.IntN(len(days))], from/60, from%60, to/60, to%60)
	}
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca"} {
		zone := must[*time.Location](t)(time.LoadLocation(name))
		begin := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		changes := job.ZoneChanges(begin.In(zone), begin.AddDate(3, 0, 0))
		settings := string(must[[]byte](t)(json.Marshal(changes)))
		for n := range 80 {
			at := begin.Add(time.Duration(random.Int64N(int64(2 * 365 * 24 * time.Hour))))
			if n%2 == 0 && len(changes) > 1 { // around a change of the clock
				at = time.Unix(changes[1+random.IntN(len(changes)-1)][0], 0).Add(time.Duration(random.Int64N(int64(48*time.Hour))) - 24*time.Hour)
			}
			at = at.Truncate(time.Microsecond).UTC()
			list := []string{window(), window()}[:1+random.IntN(2)]
			text := string(must[[]byte](t)(json.Marshal(list)))
			windows := must[job.Windows](t)(job.ParseWindows(list))
			want := engine.Text(policy.Opening(windows, zone, at))
			got := s.out(conn, "shop_job$opening", text, settings, engine.Text(at))
			ensure(t, got == want, "%s %s at %s: opens %s, want %s", name, text, engine.Text(at), got, want)
		}
	}
}

// SQL and Go accept the same windows.
func (s env) testWindows(t *testing.T) {
	conn := s.conn()
	for _, text := range []string{
		"05:00-07:00", "22:00-02:00", "mon-fri 09:00-17:30", "  MON-Fri\t09:00-17:30 ", "sat,sun 00:00-24:00", "mon,wed-fri,sun 00:00-00:01",
		"fri-mon 23:59-24:00", "", "mon", "24:00-24:00", "24:00-01:00", "00:00-24:01", "9:00-10:00", "09:00-09:00", "mon-mon 09:00-10:00",
		"mon 09:00 -10:00", "mon,, 09:00-10:00", ",mon 09:00-10:00", "mon- 09:00-10:00", "day 09:00-10:00", "09:60-10:00", "29:00-30:00",
		"09:00-10:00 mon", "mon mon 09:00-10:00", "٠٩:٠٠-10:00", "mon-fri-sun 09:00-10:00", "mon 00:00-24:00", "09:00–10:00",
	} {
		_, err := job.ParseWindow(text)
		list := string(must[[]byte](t)(json.Marshal([]string{text})))
		got := s.out(conn, "shop_job$opening", list, "null", "2026-01-01 00:00:00")
		ensure(t, (got == "NULL") == (err != nil), "%q: %s, but Go says %v", text, got, err)
	}
}

// The delays are the policy's.
func (s env) testDelay(t *testing.T) {
	conn := s.conn()
	random := rand.New(rand.NewPCG(2, 2))
	policies := []job.RetryPolicy{
		job.DefaultRetry,
		{Attempts: 200, Delay: 5 * time.Second, Backoff: job.Fixed, Jitter: 0.5},
		{Attempts: 200, Delay: time.Hour, Backoff: job.Exponential, MaxDelay: time.Minute},
		{Attempts: 200, Delay: time.Millisecond, Backoff: job.Exponential, MaxDelay: 90 * 24 * time.Hour, Jitter: 1},
	}
	for _, p := range policies {
		o := options()
		o.Types[0].Retry = p
		must[int](t)((*store.Queue)(must[*queue.Queue](t)(queue.New(s.db, o))).Reshard(t.Context()))
		settings := value[string](s, "SELECT settings FROM shop_job_types WHERE job_type = 'send'")
		for range 30 {
			attempt, r := 1+random.IntN(80), random.Float64()
			p.Attempts = 200
			want := policy.Retry(p, attempt, job.Outcome{Verdict: job.TryAgain}, r).In
			us := must[float64](t)(strconv.ParseFloat(s.out(conn, "shop_job$delay", settings, attempt, r), 64))
			got := time.Duration(us * float64(time.Microsecond))
			diff := (got - want).Abs()
			ensure(t, diff <= time.Millisecond, "%+v attempt %d, %f: %s, want %s", p, attempt, r, got, want)
		}
	}
}
