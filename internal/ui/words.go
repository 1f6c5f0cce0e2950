package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// ago says how long ago a time was, or in how long it will be, in its largest unit.
func ago(now, t time.Time) string {
	d := now.Sub(t).Round(time.Second)
	unit := time.Second
	for _, u := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		if d.Abs() >= u {
			unit = u
		}
	}
	switch said := texts.Duration(d.Abs().Truncate(unit)); {
	case t.IsZero():
		return "–"
	case d == 0:
		return "now"
	case d < 0:
		return "in " + said
	default:
		return said + " ago"
	}
}

// datetime is a time in the zone of the config; the title has the year, milliseconds and UTC.
func datetime(zone *time.Location, t time.Time) template.HTML {
	return timed(zone, t, "", t.In(zone).Format("2 Jan 15:04:05"))
}

// rel is a time as ago says it; the title is exact. A script goes on with it.
func rel(zone *time.Location, now, t time.Time) template.HTML {
	return timed(zone, t, ` class="rel"`, ago(now, t))
}

func timed(zone *time.Location, t time.Time, class, said string) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s (%s UTC)"%s>%s</time>`, //nolint:gosec // of numbers only
		t.UTC().Format(time.RFC3339Nano), t.In(zone).Format("Mon 2 Jan 2006 15:04:05.000"), t.UTC().Format("15:04:05"), class, said))
}

// shown is a job's status by the names of the tabs.
func shown(j *job.Job) string {
	switch j.Status {
	case job.StatusSubmitted, job.StatusAvailable:
		return string(admin.Due)
	case job.StatusScheduled:
		if !j.ScheduledRunTime.After(time.Now()) { // the next tick makes it available
			return string(admin.Due)
		}
	case job.StatusThrottled:
		return string(admin.Held)
	case job.StatusAnswered:
		return string(admin.Running)
	case job.StatusAwaiting:
		return string(admin.Waiting)
	case job.StatusDeciding, job.StatusUndecided:
		return string(admin.Error)
	}
	return string(j.Status)
}

// sentence makes an error's text a sentence.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimRight(text[size:], ".") + "."
}

// word is a name, or a dash.
func word(text string) string {
	if text == "" || text == texts.None {
		return "–"
	}
	return texts.Clip(text, 512)
}

// called is what a list calls a job: its key, or its number.
func called(key string, id int64) string {
	if key == "" || key == job.None {
		return fmt.Sprint("job ", id)
	}
	return texts.Clip(key, 80)
}

// query is a query string of names and values in turn; empty values are left out.
func query(pairs ...any) template.URL {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if value := fmt.Sprint(pairs[i+1]); value != "" {
			v.Set(fmt.Sprint(pairs[i]), value)
		}
	}
	return template.URL(v.Encode()) //nolint:gosec // it is encoded
}

var token = regexp.MustCompile(`"(?:[^"\\]|\\.)*"(\s*:)?|-?\d[\d.eE+-]*|true|false|null`)

// highlighted marks the keys and values of JSON, indented. Another text is only escaped.
func highlighted(text string) template.HTML {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // it is escaped
	}
	indented, out, last := b.String(), strings.Builder{}, 0
	for _, at := range token.FindAllStringSubmatchIndex(indented, -1) {
		class := "v"
		if at[2] >= 0 {
			class = "k"
		}
		out.WriteString(template.HTMLEscapeString(indented[last:at[0]]))
		fmt.Fprintf(&out, `<span class="%s">%s</span>`, class, template.HTMLEscapeString(indented[at[0]:at[1]]))
		last = at[1]
	}
	out.WriteString(template.HTMLEscapeString(indented[last:]))
	return template.HTML(out.String()) //nolint:gosec // each part is escaped
}
