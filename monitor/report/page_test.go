package report

import (
	"bytes"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// written is the page's HTML.
func written(t *testing.T, s Page) string {
	t.Helper()
	var b bytes.Buffer
	dbtest.OK(t, s.Write(&b))
	return b.String()
}

var examples = map[string]func() Page{
	"empty": empty, "first": first, "young": young, "well": well, "busy": busy,
	"hostile": func() Page { return hostile(nasty) }, "long": func() Page { return hostile(long()) },
}

// TestExamples: pages load nothing. make report-check sets $HIPQ_REPORTS and opens them in a browser.
func TestExamples(t *testing.T) {
	fetches := regexp.MustCompile(`(?i)<(script|link|img|iframe|object|embed|base|form)\b|<[^>]*\s(src|srcset|on\w+|background|formaction)=|url\(|@import|@font-face`)
	elsewhere := regexp.MustCompile(`(?i)\shref="[^#]`)
	for name, example := range examples {
		page := written(t, example())
		dbtest.Same(t, fetches.FindString(page)+elsewhere.FindString(page), "", "%s", name)
		if !strings.Contains(page, `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`) {
			t.Errorf("%s: no policy against scripts and the network", name)
		}
		dbtest.Ensure(t, len(page) <= 512<<10, "%s: %d bytes", name, len(page))
		if dir := os.Getenv("HIPQ_REPORTS"); dir != "" {
			err := os.WriteFile(filepath.Join(dir, name+".html"), []byte(page), 0o600)
			dbtest.Ensure(t, err == nil, "%v", err)
		}
	}
}

var tag = regexp.MustCompile(`</?[a-z][a-z0-9]*|<!`)

// TestTextsStayTexts: names and errors change no elements of the page, and nothing in it is hidden.
func TestTextsStayTexts(t *testing.T) {
	want := without(tag.FindAllString(written(t, hostile("harmless")), -1))
	for name, text := range map[string]string{"nasty": nasty, "long": long()} {
		page := written(t, hostile(text))
		got := without(tag.FindAllString(page, -1))
		dbtest.Same(t, cmp.Diff(want, got), "", "%s (-want +got)", name)
		if at := texts.IndexHidden(page); at < len(page) {
			t.Errorf("%s: hidden character at %d: %q", name, at, page[at:at+8])
		}
	}
}

// without removes the elements around commands, which hostile texts have none of.
func without(tags []string) (rest []string) {
	for _, t := range tags {
		if name := strings.TrimLeft(t, "</"); name != "code" && name != "dl" && name != "dt" && name != "dd" {
			rest = append(rest, t)
		}
	}
	return rest
}

// TestEmpty: the page omits empty sections.
func TestEmpty(t *testing.T) {
	headings := func(s Page) (found []string) {
		for _, m := range regexp.MustCompile(`<h2[^>]*>([^<]*)`).FindAllStringSubmatch(written(t, s), -1) {
			found = append(found, m[1])
		}
		return found
	}
	dbtest.Same(t, cmp.Diff([]string{"No job has run yet"}, headings(empty())), "", "empty (-want +got)")
	dbtest.Same(t, cmp.Diff([]string(nil), headings(Page{Instance: "shop"})), "", "nothing (-want +got)")
	want := []string{
		"2 critical, 1 warning", "The last day", "Recent failures", "Next retries", "Running jobs", "Schedules", "Queues", "Job types", "Workers",
		"Hours that were not aggregated",
	}
	dbtest.Same(t, cmp.Diff(want, headings(busy())), "", "busy (-want +got)")
}

// TestLastDay: the figures of the last day include the hour that is not complete yet, and name it.
func TestLastDay(t *testing.T) {
	p := well()
	figures := func() []string {
		return regexp.MustCompile(`<dt>Finished</dt><dd><span class="number">([^<]*)</span> <span class="note">([^<]*)`).FindStringSubmatch(written(t, p))
	}
	p.Current = nil
	before := figures()
	p.Current = &monitor.Current{From: lastHour.Add(time.Hour), Queues: []monitor.CurrentQueue{{Queue: "emails", Counts: monitor.Counts{Finished: 755}}}}
	after := figures()
	finished := dbtest.Must(strconv.Atoi(strings.ReplaceAll(before[1], ",", "")))(t)
	dbtest.Same(t, after[1], texts.Thousands(finished+755))
	dbtest.Ensure(t, strings.HasPrefix(after[2], "755 since "), "%q", after)
}

// TestBadFigures: only figures above a limit, and jobs that failed for good, are marked.
func TestBadFigures(t *testing.T) {
	bad := func(p Page) (found []string) {
		for _, m := range regexp.MustCompile(`class="([^"]* )?(bad|warned)"[^>]*>([^<]*)`).FindAllStringSubmatch(written(t, p), -1) {
			found = append(found, m[2]+" "+m[3])
		}
		return found
	}
	dbtest.Same(t, cmp.Diff([]string(nil), bad(well())), "", "well (-want +got)")
	want := []string{"bad 60 %", "bad Sat 21 Nov 13:47", "bad Sat 21 Nov 13:00", "bad 1"}
	dbtest.Same(t, cmp.Diff(want, bad(first())), "", "first (-want +got)")
}

// TestLists: a list ends with the number of further items and the command for them.
func TestLists(t *testing.T) {
	page := written(t, busy())
	dbtest.Same(t, strings.Count(page, `<td class="words"><bdi>40 %`), 10, "10 of the 20 jobs that are listed have a progress")
	for _, want := range []string{
		`and 2 more jobs: <code class="command">hipq jobs --state running</code>`, `and 3 more jobs: <code class="command">hipq failures --state retry</code>`,
	} {
		dbtest.Ensure(t, strings.Contains(page, want), "no %s", want)
	}
}

// TestFindingLinks: a finding about a queue links to its section, and each link has a target.
func TestFindingLinks(t *testing.T) {
	p := busy()
	p.Zone = time.UTC
	page := written(t, p)
	links := regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1)
	for _, to := range links {
		dbtest.Ensure(t, strings.Contains(page, ` id="`+to[1]+`"`), "nothing is called %s", to[1])
	}
	v := View{p}
	about := 0
	for _, f := range p.Health.Findings {
		if f.Queue != nil {
			about++
			want := fmt.Sprintf(`<a href="#%s">%s</a>`, v.Section(f), template.HTMLEscapeString(f.Text))
			dbtest.Ensure(t, v.Section(f) != "" && strings.Contains(page, want), "no %s", want)
		}
	}
	dbtest.Ensure(t, about > 0, "no finding is about a queue")
	unknown := "nosuch"
	dbtest.Same(t, v.Section(monitor.Finding{Queue: &unknown}), "", "a queue that the page does not have")
}

// TestChart: the chart shows each hour's work in its place, keeps gaps, and follows the zone's clock changes.
func TestChart(t *testing.T) {
	berlin := dbtest.Must(time.LoadLocation("Europe/Berlin"))(t)
	from := time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC) // the clocks go back in the second night
	ms := func(n int64) monitor.Times { return monitor.Times{Count: 1, P95MS: &n} }
	w := week{from: from, zone: berlin, hours: make([]monitor.QueueHour, 8), missing: []time.Time{from.Add(5 * time.Hour)}}
	if c := w.chart(); c != nil {
		t.Errorf("nothing was done, and there is a chart of %v", c.Panels)
	}
	w.hours[0].Counts = monitor.Counts{Finished: 50, Wait: ms(1000), Run: ms(10)}
	w.hours[1].Counts = monitor.Counts{Finished: 100, Wait: ms(100)}
	w.hours[4] = monitor.QueueHour{Counts: monitor.Counts{Finished: 1, Wait: ms(1000)}, Measured: true, Backlog: 7}
	c := w.chart()
	type drawn struct{ Name, Bars, Said string }
	var panels []drawn
	for _, p := range c.Panels {
		panels = append(panels, drawn{p.Name, p.Bars, p.Said})
	}
	want := []drawn{
		{"Finished", "M0.08 100V50h.84V100zM1.08 100V0h.84V100zM4.08 100V97h.84V100z", "Finished by hour: at most 100, on Sat 24 Oct 23:00."},
		{"Backlog", "M4.08 100V0h.84V100z", "Backlog by hour: at most 7, on Sun 25 Oct 02:00."},
		{"p95 (logarithmic)", "", "The 95th percentiles by hour. Of the wait: at most 1 s, on Sun 25 Oct 02:00. Of the run: at most 10 ms, on Sat 24 Oct 22:00."},
	}
	dbtest.Same(t, cmp.Diff(want, panels), "", "panels (-want +got)")
	lines := []line{{"wait", "M0 1.5h1V33.33h1M4 1.5h1"}, {"run", "M0 66.67h1"}}
	dbtest.Same(t, cmp.Diff(lines, c.Panels[2].Lines), "", "lines (-want +got)")
	slots := []slot{
		{0, false, "Sat 24 Oct 22:00: 50 finished, p95 of wait 1 s, p95 of run 10 ms"},
		{1, false, "Sat 24 Oct 23:00: 100 finished, p95 of wait 100 ms"},
		{4, false, "Sun 25 Oct 02:00: 1 finished, 7 left due, p95 of wait 1 s"},
		{5, true, "Sun 25 Oct 02:00: not aggregated"},
	}
	dbtest.Same(t, cmp.Diff(slots, c.Slots), "", "slots (-want +got)")
	dbtest.Same(t, cmp.Diff([]day{{X: 2, Left: "25%", Named: true, Name: "Sun", Date: "25"}}, c.Days), "", "days (-want +got)")
}

// TestMissingHours: one command covers any number of hours.
func TestMissingHours(t *testing.T) {
	command := regexp.MustCompile(`>hipq monitor --(?:at|missing)[^<]*<`)
	s := empty()
	for _, want := range []string{"", ">hipq monitor --at 2026-11-21T00:00:00Z<", ">hipq monitor --missing --since 2026-11-21T00:00:00Z<"} {
		got := command.FindAllString(written(t, s), -1)
		dbtest.Ensure(t, strings.Join(got, "") == want, "%q, want %q", got, want)
		s.Missing = append(s.Missing, time.Date(2026, 11, 21, len(s.Missing), 0, 0, 0, time.UTC))
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, "–"}, {0, 7, "0 %"}, {1, 5000, "< 0.1 %"}, {41, 1000, "4.1 %"}, {12, 100, "12 %"}, {999, 1000, "> 99 %"}, {7, 7, "100 %"},
	} {
		dbtest.Same(t, share(c.part, c.whole), c.want, "%d of %d", c.part, c.whole)
	}
}

// TestChanged: a change is only shown if both windows have as many hours.
func TestChanged(t *testing.T) {
	for _, c := range []struct {
		hours, before int
		now, then     int64
		want          string
	}{
		{6, 6, 120, 100, "+20 %"},
		{6, 6, 50, 100, "−50 %"},
		{6, 6, 1000, 1001, "±0 %"},
		{6, 6, 1300, 100, "× 13"},
		{6, 6, 5, 0, "none before"},
		{6, 6, 0, 0, "–"},
		{6, 6, 0, 4, "−100 %"},
		{6, 5, 120, 100, "–"},
		{5, 6, 120, 100, "–"},
		{0, 0, 0, 0, "–"},
	} {
		dbtest.Same(t, changed(c.hours, c.now, c.before, c.then), c.want, "%+v", c)
	}
}

func TestCommand(t *testing.T) {
	for _, text := range []string{"hipq retry emails --type 'a  b' --fingerprint 3f2a91bc", "hipq retry emails --type é"} {
		dbtest.Same(t, command(text), text)
	}
	for _, text := range []string{"hipq retry emails --type 'a\nb'", "hipq retry emails --type '\u202ea'", "hipq retry " + strings.Repeat("x", maxCommand)} {
		dbtest.Same(t, command(text), "", "%.50q can't be typed in as it is shown", text)
	}
}
