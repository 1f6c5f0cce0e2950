package job_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/job"
)

type receipt struct {
	Order int
	To    string `json:"to,omitempty"`
}

const send job.Kind[receipt] = "send"

func TestOf(t *testing.T) {
	want := receipt{4711, "<a@example.org>"}
	j, err := send.New(want)
	dbtest.Require(t, err == nil && j.Type == "send" && j.Data == `{"Order":4711,"to":"<a@example.org>"}`, "%+v, %v", j, err)
	got, err := send.Read(&job.Job{Type: j.Type, Data: j.Data})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	got, err = send.Read(&job.Job{Type: "send", Data: `{"Order": 1, "newer": true}`})
	dbtest.Ensure(t, err == nil && got.Order == 1, "an unknown field: %+v, %v", got, err)
	got, err = job.ResultOf[receipt](&job.Job{Result: `{"Order": 2}`})
	dbtest.Ensure(t, err == nil && got.Order == 2, "a result: %+v, %v", got, err)
}

// TestOfAnything: a payload of type any is JSON even if it is a text, because text and JSON are otherwise indistinguishable.
func TestOfAnything(t *testing.T) {
	const anything job.Kind[any] = "anything"
	for _, want := range []any{"hello", "null", 1.5, nil} {
		j := dbtest.Must(anything.New(want))(t)
		got, err := anything.Read(&job.Job{Type: j.Type, Data: j.Data})
		dbtest.Ensure(t, err == nil && got == want, "%#v: %#v, %v", want, got, err)
	}
}

func TestOfRefuses(t *testing.T) {
	for data, says := range map[string]string{
		`{"Order": "x"}`:   "Order", // the error names the field
		`{"Order": 1} {}`:  "after top-level value",
		"receipt 1":        "invalid character",
		"":                 "there is no value",
		job.None:           "there is no value",
		" null ":           "there is no value",
		`{"Order":1,"to":`: "unexpected end",
	} {
		got, err := send.Read(&job.Job{Type: "send", Data: data})
		dbtest.Ensure(t, errors.Is(err, job.ErrInvalid) && strings.Contains(err.Error(), says) && got == (receipt{}),
			"%s: %+v, %v", data, got, err)
	}
	refuses := func(what, says string) func(any, error) {
		return func(_ any, err error) {
			t.Helper()
			dbtest.Ensure(t, errors.Is(err, job.ErrInvalid) && strings.Contains(err.Error(), says), "%s: %v", what, err)
		}
	}
	refuses("of another type", "")(send.Read(&job.Job{Type: "sent", Data: "{}"}))
	refuses("another result", "")(job.ResultOf[receipt](&job.Job{Result: "sent"}))
	refuses("no JSON", "")(job.Kind[float64]("f").New(math.NaN()))
	refuses("large", "")(job.Kind[string]("s").New(strings.Repeat("x", job.MaxDataBytes+1)))
	refuses("a text that reads as nothing", "no data")(job.Kind[string]("s").New(job.None))
	refuses("a panic", "panic: broken")(job.Kind[broken]("b").New(broken{}))
	refuses("no job", "")(send.Read(nil))
	refuses("no job", "")(job.ResultOf[receipt](nil))
	refuses("no type", "")(job.Kind[string]("").New("x"))
}

// TestOfNothing: a null payload is no data, and reads as null if T can be nil.
func TestOfNothing(t *testing.T) {
	const maybe job.Kind[*receipt] = "maybe"
	j, err := maybe.New(nil)
	dbtest.Ensure(t, err == nil && j.Data == "", "%+v, %v", j, err)
	err = (job.Params{Type: "maybe", Data: job.None}).Check()
	dbtest.Ensure(t, errors.Is(err, job.ErrInvalid), "the word itself: %v", err)
	row := job.Job{Status: job.StatusAvailable, Type: "maybe", Key: "k", Data: job.None, Timeout: time.Minute}
	if err := row.Check(); err != nil { // as in the table
		t.Error(err)
	}
	for _, data := range []string{job.None, "null"} {
		got, err := maybe.Read(&job.Job{Type: "maybe", Data: data})
		dbtest.Ensure(t, err == nil && got == nil, "%s: %v, %v", data, got, err)
	}
	const text job.Kind[string] = "text"
	for data, want := range map[string]string{job.None: "", "null": "null", `"x"`: `"x"`, "5": "5"} {
		got, err := text.Read(&job.Job{Type: "text", Data: data})
		dbtest.Ensure(t, err == nil && got == want, "%s: %q, %v", data, got, err)
	}
}

// broken panics instead of becoming JSON.
type broken struct{}

// MarshalJSON implements json.Marshaler.
func (broken) MarshalJSON() ([]byte, error) { panic("broken") }

// TestReason: the stored error never means "no error".
func TestReason(t *testing.T) {
	for _, text := range []string{"", job.None} {
		reason := (job.Outcome{Verdict: job.Failed, Error: text}).Reason()
		dbtest.Ensure(t, reason != "" && reason != job.None, "%q: %q", text, reason)
	}
}

// TestTimeOfAnotherZone: a time is judged by its year in UTC, as the tables have it.
func TestTimeOfAnotherZone(t *testing.T) {
	west := time.FixedZone("", -5*60*60)
	for at, fits := range map[time.Time]bool{
		time.Date(9998, 12, 31, 18, 0, 0, 0, west): true, time.Date(9998, 12, 31, 19, 0, 0, 0, west): false,
		time.Date(1969, 12, 31, 19, 0, 0, 0, west): true, time.Date(1969, 12, 31, 18, 0, 0, 0, west): false,
	} {
		err := (job.Params{Type: "any", At: at}).Check()
		dbtest.Ensure(t, (err == nil) == fits, "%s: %v", at, err)
	}
}
