package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
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

// none stands for what doesn't exist, or wasn't measured.
const none = "–"

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
		return none
	case d == 0:
		return "now"
	case d < 0:
		return "in " + said
	default:
		return said + " ago"
	}
}

// At is a time in the zone of the config; the title has the year, milliseconds and UTC.
func (v *view) At(t time.Time) template.HTML {
	layout := "2 Jan 15:04:05"
	if v.File {
		layout = "Mon 2 Jan 15:04"
	}
	return v.timed(t, "", t.In(v.Zone).Format(layout))
}

// Ago is a time as ago says it; the title is exact. A script goes on with it, which a file doesn't have.
func (v *view) Ago(t time.Time) template.HTML {
	if v.File {
		return v.At(t)
	}
	return v.timed(t, ` class="rel"`, ago(v.Now, t))
}

func (v *view) timed(t time.Time, class, said string) template.HTML {
	if t.IsZero() {
		return none
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s (%s UTC)"%s>%s</time>`, //nolint:gosec // of numbers only
		t.UTC().Format(time.RFC3339Nano), t.In(v.Zone).Format("Mon 2 Jan 2006 15:04:05.000"), t.UTC().Format("15:04:05"), class, said))
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
		return none
	}
	return texts.Clip(text, 512)
}

// atLeast is how many jobs were counted, with a plus if there may be more.
func atLeast(n int64, all bool) string { return texts.Thousands(n) + map[bool]string{false: "+"}[all] }

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

func duration(ms int64) string { return texts.Duration(time.Duration(ms) * time.Millisecond) }

func percentile(ms *int64) string {
	if ms == nil {
		return none
	}
	return duration(*ms)
}

func share(part, whole int64) string {
	if whole == 0 {
		return none
	}
	switch p := 100 * float64(part) / float64(whole); {
	case part == 0:
		return "0 %"
	case p < 0.1:
		return "< 0.1 %"
	case p < 9.95:
		return fmt.Sprintf("%.1f %%", p)
	case part < whole && p >= 99.5:
		return "> 99 %"
	default:
		return fmt.Sprintf("%.0f %%", p)
	}
}

// changed is the change from an earlier window, if as many of its hours were aggregated.
func changed(hours int, now int64, hoursBefore int, before int64) string {
	switch {
	case hours == 0 || hours != hoursBefore || before == 0 && now == 0:
		return none
	case before == 0:
		return "none before"
	}
	switch p := math.Round(100 * float64(now-before) / float64(before)); {
	case p == 0:
		return "±0 %"
	case p >= 900:
		return fmt.Sprintf("× %.0f", float64(now)/float64(before))
	case p > 0:
		return fmt.Sprintf("+%.0f %%", p)
	default:
		return fmt.Sprintf("−%.0f %%", -p)
	}
}

const maxCommand = 4 << 10

// command is a command to copy. It is empty if it can't be shown exactly.
func command(text string) string {
	if len(text) > maxCommand || strings.ContainsAny(text, "\n\t") || texts.IndexHidden(text) < len(text) {
		return ""
	}
	return text
}
