package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// Texts are kept to the byte: any script, trailing blanks that a comparison ignores, or only blanks.
func TestProceduresTexts(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		for i, key := range []string{"😀", " ", "  ", "k", "k ", "K", "ü", "u\u0308", `"`, `\`, "'; DROP", "NONE", "[", "\u2028"} {
			for _, duplicate := range []string{"0", "1"} {
				equal(t, s.one("job_submit", "emails", "😀"+key, key, "😀"+key, nil)["duplicate"], duplicate, "%q", key)
			}
			types := fmt.Sprintf("[%q]", "😀"+key)
			if i == 0 {
				types = `["\ud83d\ude00\ud83d\ude00"]`
			}
			g := s.one("job_grab", "w1", "emails", types, 1)
			ensure(t, g["job_key"] == key && g["job_data"] == "😀"+key && g["job_type"] == "😀"+key, "%q: %v", key, g)
			s.call("job_start", "w1", "emails", g["id"], g["token"])
			s.call("job_fail", "w1", "emails", g["id"], g["token"], "😀"+key, `{"final":true}`)
			equal(t, s.get(s.byKey(key)).Error, "😀"+key, "%q", key)
			s.exec("DELETE FROM shop_emails")
		}
	})
}

// A duplicate option is refused where the server shows it, and a name that only looks like an option isn't one.
func TestProceduresOptions(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		twice := `{"priority":7,"time_windows":["00:00-24:00"],"priority":7}`
		members := value[int](s, "SELECT JSON_LENGTH(?)", twice)
		if members == 3 { // MySQL sees two
			s.wantRefusal(31002, "a name is given twice", "job_submit", "emails", "send", "k", nil, twice)
			twice = twice[:len(twice)-len(`,"priority":7}`)] + "}"
		}
		s.one("job_submit", "emails", "send", "k", nil, twice)
		j := s.get(s.byKey("k"))
		ensure(t, j.Priority == 7 && len(j.Windows) == 1, "%+v", j)
		s.wantRefusal(31002, "unknown name in ", "job_submit", "emails", "send", "l", nil, `{"in ":"1h"}`)
		s.wantRefusal(31002, "unknown name ", "job_submit", "emails", "send", "l", nil, `{"":"1h"}`)
		g := s.begin("w1")
		s.wantRefusal(31002, "unknown name final ", "job_fail", "w1", "emails", g["id"], g["token"], nil, `{"final ":true}`)
		if members == 3 {
			s.wantRefusal(31002, "a name is given twice", "job_fail", "w1", "emails", g["id"], g["token"], nil, `{"final":true,"final":true}`)
		}
		s.call("job_fail", "w1", "emails", g["id"], g["token"], nil, `{"final":true}`)
		s.wantState(s.byKey("k"), job.Final, "failed", 1)
		for _, id := range []int64{0, -1, -9223372036854775808, 9223372036854775807} {
			s.wantRefusal(31007, "no job", "job_start", "w1", "emails", id, "t")
			s.wantRefusal(31007, "no job", "job_complete", "w1", "emails", id, "t", nil)
		}
	})
}

// NONE is no job's data and no reason; a zero delay means at once, and the number 0 is no wish, as for handlers.
func TestProceduresNothing(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.wantRefusal(31002, "NONE stands for no data", "job_submit", "emails", "send", "k", job.None, nil)
		s.call("job_submit", "emails", "send", "k", "NONE ", nil)
		equal(t, s.get(s.byKey("k")).Data, "NONE ")
		for range 2 { // the policy would wait for an hour
			g := s.begin("w1")
			r := s.one("job_fail", "w1", "emails", g["id"], g["token"], "busy", `{"retry_after":"0s"}`)
			require(t, r["state"] == "retry", "%v", r)
			s.exec("UPDATE shop_emails SET attempt = 0")
		}
		g := s.begin("w1")
		s.call("job_fail", "w1", "emails", g["id"], g["token"], job.None, `{"final":true}`)
		s.wantState(s.byKey("k"), job.Final, "failed", 1)
		equal(t, s.get(s.byKey("k")).Error, (job.Outcome{Error: job.None}).Reason())
		s.call("job_submit", "emails", "send", "l", nil, nil)
		g = s.begin("w1")
		r := s.one("job_fail", "w1", "emails", g["id"], g["token"], "busy", `{"retry_after":0}`)
		ensure(t, r["scheduled_run_time"] > engine.Text(time.Now().Add(50*time.Minute)), "%v", r)
	})
}
