package queue_test

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
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// out calls a procedure on one connection and gives its last parameter, which it sets; NULL is "NULL".
func (s store) out(conn *sql.Conn, name string, args ...any) string {
	s.t.Helper()
	marks := strings.Repeat("?, ", len(args))
	must[any](s.t)(conn.ExecContext(s.t.Context(), "CALL "+name+"("+marks+"@got)", args...))
	var got sql.NullString
	must[any](s.t)(nil, conn.QueryRowContext(s.t.Context(), "SELECT @got").Scan(&got))
	if !got.Valid {
		return "NULL"
	}
	return got.String
}

func (s store) conn() *sql.Conn {
	s.t.Helper()
	conn := must[*sql.Conn](s.t)(s.db.Conn(s.t.Context()))
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// What the procedures judge, they judge as Go does.
func TestProceduresRules(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s store) {
		t.Run("place", func(t *testing.T) { s.testPlace(t) })
		t.Run("opening", func(t *testing.T) { s.testOpening(t) })
		t.Run("windows", func(t *testing.T) { s.testWindows(t) })
		t.Run("delay", func(t *testing.T) { s.testDelay(t) })
		t.Run("group", func(t *testing.T) { s.testGroup(t) })
	})
}

// SQL opens windows when Go does, whatever the zone's clock does meanwhile.
func (s store) testOpening(t *testing.T) {
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
			if n%2 == 0 && len(changes) > 1 { // about a change of the clock
				at = time.Unix(changes[1+random.IntN(len(changes)-1)][0], 0).Add(time.Duration(random.Int64N(int64(48*time.Hour))) - 24*time.Hour)
			}
			at = at.Truncate(time.Microsecond).UTC()
			list := []string{window(), window()}[:1+random.IntN(2)]
			text := string(must[[]byte](t)(json.Marshal(list)))
			windows := must[job.Windows](t)(job.ParseWindows(list))
			want := engine.Text(rules.Opening(windows, zone, at))
			if got := s.out(conn, "shop_job$opening", text, settings, engine.Text(at)); got != want {
				t.Errorf("%s %s at %s: opens %s, want %s", name, text, engine.Text(at), got, want)
			}
		}
	}
}

// What is a window for Go is one for SQL, and nothing else.
func (s store) testWindows(t *testing.T) {
	conn := s.conn()
	for _, text := range []string{
		"05:00-07:00", "22:00-02:00", "mon-fri 09:00-17:30", "  MON-Fri\t09:00-17:30 ", "sat,sun 00:00-24:00", "mon,wed-fri,sun 00:00-00:01",
		"fri-mon 23:59-24:00", "", "mon", "24:00-24:00", "24:00-01:00", "00:00-24:01", "9:00-10:00", "09:00-09:00", "mon-mon 09:00-10:00",
		"mon 09:00 -10:00", "mon,, 09:00-10:00", ",mon 09:00-10:00", "mon- 09:00-10:00", "day 09:00-10:00", "09:60-10:00", "29:00-30:00",
		"09:00-10:00 mon", "mon mon 09:00-10:00", "٠٩:٠٠-10:00", "mon-fri-sun 09:00-10:00", "mon 00:00-24:00", "09:00–10:00",
	} {
		_, err := job.ParseWindow(text)
		list := string(must[[]byte](t)(json.Marshal([]string{text})))
		if got := s.out(conn, "shop_job$opening", list, "null", "2026-01-01 00:00:00"); (got == "NULL") != (err != nil) {
			t.Errorf("%q: %s, but Go says %v", text, got, err)
		}
	}
}

// A job's place is the one that Go tells, whatever bytes its key and its shard_key have.
func (s store) testPlace(t *testing.T) {
	conn := s.conn()
	random := rand.New(rand.NewPCG(3, 3))
	texts := []string{"k", "k ", " ", "NONE", "none", "ü", "u\u0308", "😀", `'; DROP`, `\`, "\x00", "\xff", "\xc3", strings.Repeat("x", 255)}
	for range 200 {
		text := make([]byte, 1+random.IntN(40))
		for i := range text {
			text[i] = byte(random.IntN(256))
		}
		texts = append(texts, string(text))
	}
	seen := map[string]bool{}
	for i, key := range texts {
		for _, shardKey := range []string{"", "NONE", texts[(i+7)%len(texts)]} {
			d := shards.Division{N: []int{2, 3, 8, 999}[random.IntN(4)]}
			must[any](t)(conn.ExecContext(t.Context(), "CALL shop_emails$place(?, NULL, 'send', UNHEX(?), UNHEX(?), 'NONE', @got)",
				d.Number(), fmt.Sprintf("%x", key), fmt.Sprintf("%x", shardKey)))
			var got string
			must[any](t)(nil, conn.QueryRowContext(t.Context(), "SELECT @got").Scan(&got))
			if want := d.Place(d.Of("send", key, shardKey, nil)); got != fmt.Sprint(want) {
				t.Errorf("%q, %q of %d: %s, want %d", key, shardKey, d.N, got, want)
			}
			seen[got] = true
		}
	}
	if len(seen) < 50 {
		t.Errorf("only %d places", len(seen))
	}
}

// The delays are those of the policy.
func (s store) testDelay(t *testing.T) {
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
		must[any](t)(nil, must[*queue.Queue](t)(queue.New(s.db, o)).Register(t.Context()))
		var settings string
		must[any](t)(nil, s.db.GetContext(t.Context(), &settings, "SELECT settings FROM shop_job_types WHERE job_type = 'send'"))
		now := time.Now()
		for range 30 {
			attempt, r := 1+random.IntN(80), random.Float64()
			p.Attempts = 200
			want := rules.Retry(p, attempt, job.Outcome{Verdict: job.TryAgain}, now, r).At.Sub(now)
			us := must[float64](t)(strconv.ParseFloat(s.out(conn, "shop_job$delay", settings, attempt, r), 64))
			got := time.Duration(us * float64(time.Microsecond))
			if diff := (got - want).Abs(); diff > time.Millisecond {
				t.Errorf("%+v attempt %d, %f: %s, want %s", p, attempt, r, got, want)
			}
		}
	}
}

// A job's group is the one that Go tells, or SQL leaves the job to hipq.
func (s store) testGroup(t *testing.T) {
	conn := s.conn()
	for _, by := range []string{"job_type", "data.region", "data.customer.region"} {
		g := job.ThrottleGroups{By: by, Limits: map[string]int{"*": 1, "east": 4}}
		told := 0
		for _, data := range []string{
			"NONE", "plain", "{", `{}`, `[]`, `7`, `"region"`, `{"region":"east"}`, `{"region": "west" }`, `{"region":7}`, `{"region":1.0}`, `{"region":-0}`,
			`{"region":12345678901234567890}`, `{"region":1e2}`, `{"region":true}`, `{"region":null}`, `{"region":""}`, `{"region":["a"]}`,
			`{"region":{"a":1}}`, `{"region":"east","region":"west"}`, `{"REGION":"east"}`, `{"region":"ea\u0073t"}`, `{"r\u0065gion":"x","region":"east"}`,
			`{"region":"K\u00f6ln"}`, `{"region":"Köln"}`, `{"region":"😀"}`, `{"region":"` + strings.Repeat("ü", 200) + `"}`, `{"region":"a\"b\\c\/d"}`,
			`{"name":"region","region":"east"}`, `{"customer":{"region":"east"}}`, `{"customer":{"region":"east"},"region":"west"}`, `{"customer":"region"}`,
			`{"customer":{"region":7,"x":[]}}`, `{"customer":[{"region":"east"}]}`, `{"customer":{"customer":{"region":"a"}}}`, "{\"region\":\"a\nb\"}", `{"region":"a\nb"}`,
			`{"region":"east"} x`, ` {"region":"east"}`, `{"region":"east",}`, `{"region.x":"a"}`,
		} {
			want := g.Of("send", []byte(data))
			group := s.out(conn, "shop_emails$group", by, "send", data)
			switch group {
			case want:
				told++
			case "NULL":
			default:
				t.Errorf("by %s %s: %s, want %s", by, data, group, want)
			}
			d := shards.Division{N: 8, Groups: &g}
			place := fmt.Sprint(d.Place(d.Of("send", "k", "s", []byte(data))))
			if group == "NULL" {
				place = "NULL"
			}
			if got := s.out(conn, "shop_emails$place", d.Number(), by, "send", "k", "s", data); got != place {
				t.Errorf("by %s %s: place %s, want %s", by, data, got, place)
			}
			if got := s.out(conn, "shop_job$limit", by, `{"*":1,"east":4}`, want); got != fmt.Sprint(g.Limit(want)) {
				t.Errorf("%s: limit %s, want %d", want, got, g.Limit(want))
			}
		}
		if told < 20 {
			t.Errorf("by %s only %d groups are told", by, told)
		}
	}
}
