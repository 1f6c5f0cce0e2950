package ui_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/ui"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

func TestMain(m *testing.M) { dbtest.Main(m, "emails") }

// desk is a server with a browser.
type desk struct {
	*http.Client
	t     testing.TB
	db    *schema.DB
	q     *queue.Queue
	pages *ui.Server
	url   string
	token string
	file  string
}

// open starts a server on a database. The browser is outside.
func open(t *testing.T, o ui.Options) *desk {
	t.Helper()
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails")
	q := dbtest.Must(queue.New(db, queue.Options{Name: "emails", Types: []job.Type{job.DefaultType("send")}}))(t)
	return openOn(t, db, q, o)
}

// entered starts such a server beside other tests, and lets its browser in.
func entered(t *testing.T) *desk {
	t.Helper()
	t.Parallel()
	return open(t, ui.Options{}).enter()
}

func openOn(t testing.TB, db *schema.DB, q *queue.Queue, o ui.Options) *desk {
	t.Helper()
	i := instanceOn(t, db, q)
	if o.UserHeader == "" {
		o.Token = "t0ken"
	}
	pages := ui.New(t.Context(), i, o)
	s := httptest.NewServer(pages.Handler())
	t.Cleanup(s.Close)
	return &desk{Client: browser(t), t: t, db: db, q: q, pages: pages, url: s.URL, token: o.Token, file: i.File}
}

func instanceOn(t testing.TB, db *schema.DB, q *queue.Queue) ui.Instance {
	t.Helper()
	i := ui.Instance{
		Name: "shop", DB: db, Zone: time.UTC, Alert: monitor.DefaultAlert(),
		Command: func(text string) string { return text },
		Mend: func(k admin.Kind) []string {
			return []string{"hipq retry " + k.Queue + " --fingerprint " + k.Fingerprint}
		},
		Queues: func(ctx context.Context) ([]*queue.Queue, error) {
			_, err := admin.Registered(ctx, db)
			return []*queue.Queue{q}, err
		},
		Health: func(ctx context.Context) (monitor.Health, error) {
			s, err := monitor.New(db).State(ctx, time.Hour, 10_000)
			return monitor.DefaultAlert().Judge(s), err
		},
		Schedules: func(ctx context.Context) ([]ui.Schedule, error) {
			_, err := scheduler.New(db, nil).Rows(ctx)
			if err == nil {
				_, err = db.SQL.Clock(ctx)
			}
			return nil, err
		},
		Asker:     func(string) admin.Asker { return admin.Asker{Handled: []string{"send"}} },
		CheckType: func(context.Context, *queue.Queue, string) error { return nil },
		Time: func(_ context.Context, text string) (time.Time, error) {
			at, err := time.Parse("2006-01-02 15:04", text)
			if d, ago := strings.CutPrefix(text, "-"); ago {
				var age time.Duration
				age, err = time.ParseDuration(d)
				at = time.Now().Add(-age)
			}
			return at, err
		},
	}
	if db.SQL.Engine == "sqlite" {
		dbtest.OK(t, db.SQL.GetContext(t.Context(), &i.File, "SELECT file FROM pragma_database_list WHERE name = 'main'"))
	}
	return i
}

func browser(t testing.TB) *http.Client {
	return &http.Client{Jar: dbtest.Must(cookiejar.New(nil))(t), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// answer is what the server answered.
type answer struct {
	*http.Response
	text string
}

func (d *desk) do(method, path string, form url.Values, headers ...string) answer {
	d.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := dbtest.Must(http.NewRequestWithContext(d.t.Context(), method, d.url+path, body))(d.t)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for n := 0; n+1 < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	a := dbtest.Must(d.Do(r))(d.t)
	defer a.Body.Close()
	return answer{a, string(dbtest.Must(io.ReadAll(a.Body))(d.t))}
}

func (d *desk) get(path string) answer { d.t.Helper(); return d.do(http.MethodGet, path, nil) }

// enter lets the browser in.
func (d *desk) enter() *desk {
	d.t.Helper()
	dbtest.Same(d.t, d.get("/?token="+d.token).StatusCode, http.StatusSeeOther)
	return d
}

// act posts a form, and confirms it.
func (d *desk) act(path string, form url.Values) answer {
	d.t.Helper()
	a := d.do(http.MethodPost, path, form)
	if task := a.Header.Get("Location"); strings.HasPrefix(task, "/tasks/") && strings.Contains(d.get(task).text, `action="`+task+`"`) {
		a = d.do(http.MethodPost, task, url.Values{})
	}
	return a
}

// said is what the page after an action says of it.
func (d *desk) said(a answer) string {
	d.t.Helper()
	for n := 0; ; n++ {
		dbtest.Require(d.t, a.StatusCode == http.StatusSeeOther && n < 100, "%d: %s", a.StatusCode, a.text)
		page := d.get(a.Header.Get("Location"))
		if m := regexp.MustCompile(`(?s)<p class="said(?: bad)?" role="alert">(.*?)</p>`).FindStringSubmatch(page.text); m != nil {
			return m[1]
		}
	}
}

func (d *desk) add(p ...job.Params) (ids []int64) {
	d.t.Helper()
	for _, j := range p {
		added := dbtest.Must(d.q.Enqueue(d.t.Context(), j))(d.t)
		ids = append(ids, added.ID)
	}
	return ids
}

func (d *desk) exec(statement string, args ...any) {
	d.t.Helper()
	dbtest.Must(d.db.SQL.ExecContext(d.t.Context(), statement, args...))(d.t)
}

// fail makes jobs failed.
func (d *desk) fail(text string, ids ...int64) {
	d.t.Helper()
	for _, id := range ids {
		d.exec("UPDATE shop_emails SET status = 'failed', wake_time = NULL, attempt = 1, error = ? WHERE id = ?", text, id)
	}
}

func TestDoor(t *testing.T) {
	t.Parallel()
	d := open(t, ui.Options{})
	for _, path := range []string{"/", "/queues/emails", "/events", "/queues/emails/jobs/1/data", "/?token=", "/?token=t0ke", "/?token=t0ken2"} {
		a := d.get(path)
		dbtest.Same(t, a.StatusCode, http.StatusUnauthorized, path)
		dbtest.Ensure(t, !strings.Contains(a.text, "emails") && strings.Contains(a.text, "<h2>What to do</h2>"), "%s: %s", path, a.text)
	}
	dbtest.Same(t, d.do(http.MethodPost, "/enqueue", url.Values{"token": {d.token}}).StatusCode, http.StatusUnauthorized, "a token in a form")
	d.enter()
	a := d.get("/")
	dbtest.Same(t, a.StatusCode, http.StatusOK)
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":  "nosniff", "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin", "Referrer-Policy": "same-origin",
	} {
		dbtest.Same(t, a.Header.Get(name), want, name)
	}
	dbtest.Ensure(t, !regexp.MustCompile(`(?i)<script>|\son\w+=|<style|\sstyle=|javascript:`).MatchString(a.text), "inline: %s", a.text)

	// somebody else replays the token, or guesses
	d.Client = browser(t)
	dbtest.Same(t, d.get("/?token="+d.token).StatusCode, http.StatusUnauthorized, "replayed")
	d = open(t, ui.Options{})
	for range 20 {
		dbtest.Same(t, d.get("/?token=guess").StatusCode, http.StatusUnauthorized)
	}
	entered := d.get("/queues/emails?token=" + d.token)
	dbtest.Same(t, entered.StatusCode, http.StatusSeeOther, "the right token after wrong ones")
	dbtest.Same(t, entered.Header.Get("Location"), "/queues/emails", "one comes to the page that one asked for")
}

func TestCookie(t *testing.T) {
	t.Parallel()
	d := open(t, ui.Options{})
	a := d.get("/?token=" + d.token)
	c := a.Cookies()[0]
	dbtest.Ensure(t, c.HttpOnly && c.SameSite == http.SameSiteLaxMode && c.Path == "/" && len(c.Value) >= 26, "%v", c)
	other := open(t, ui.Options{}) // cookies don't know ports
	other.Jar = d.Jar
	other.enter()
	at := func(u string) *http.Request { return dbtest.Must(http.NewRequest(http.MethodGet, u, nil))(t) }
	var all []*http.Cookie
	for _, of := range []*desk{d, other} {
		all = append(all, of.Jar.Cookies(at(of.url).URL)...)
	}
	for _, of := range []*desk{d, other} {
		dbtest.Same(t, answered(t, at(of.url+"/"), all...), http.StatusOK, "with the cookies of both")
	}
	dbtest.Same(t, answered(t, at(d.url+"/"), &http.Cookie{Name: c.Name, Value: c.Value[:len(c.Value)-1]}), http.StatusUnauthorized)
}

// answered is the status of the answer to a request with these cookies.
func answered(t *testing.T, r *http.Request, cookies ...*http.Cookie) int {
	t.Helper()
	for _, c := range cookies {
		r.AddCookie(c)
	}
	a := dbtest.Must(http.DefaultClient.Do(r))(t)
	dbtest.OK(t, a.Body.Close())
	return a.StatusCode
}

func TestOtherOrigins(t *testing.T) {
	d := entered(t)
	id := d.add(job.Params{Type: "send"})[0]
	form := url.Values{"do": {"cancel"}, "id": {fmt.Sprint(id)}}
	asked := d.do(http.MethodPost, "/queues/emails/jobs", form, "Origin", d.url)
	task := asked.Header.Get("Location")
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Origin", "http://evil.example"},
		{"Origin", "null"},
		{"Origin", "http://127.0.0.1:1"},
	} {
		for _, path := range []string{"/queues/emails/jobs", task, "/queues/emails/pause", "/enqueue", "/schedules/nightly"} {
			a := d.do(http.MethodPost, path, form, headers...)
			dbtest.Same(t, a.StatusCode, http.StatusForbidden, headers, path)
		}
	}
	j := dbtest.Must(d.q.Get(t.Context(), id))(t)
	dbtest.Same(t, j.Status, job.StatusAvailable)
	dbtest.Same(t, d.said(d.do(http.MethodPost, task, form, "Origin", d.url)), "1 job of emails was cancelled.")
	dbtest.Same(t, d.said(d.do(http.MethodPost, task, form)), "1 job of emails was cancelled.", "sent twice")
	d.Client = browser(t)
	dbtest.Same(t, d.do(http.MethodPost, task, form, "Origin", d.url).StatusCode, http.StatusUnauthorized, "without a cookie")
}

// TestHosts: a name that somebody lets lead to this host opens nothing (DNS rebinding), with the token or the proxy's header.
func TestHosts(t *testing.T) {
	t.Parallel()
	own, byProxy := open(t, ui.Options{Port: "8080"}).enter(), open(t, ui.Options{UserHeader: "X-User", Port: "8080"})
	for host, want := range map[string][2]int{
		"127.0.0.1": {200, 200}, "127.0.0.1:8080": {200, 200}, "localhost:4711": {200, 200}, "[::1]:8080": {200, 200}, "10.0.0.1:8080": {200, 200},
		"evil.example:8080": {421, 421}, "localhost.evil.example:8080": {421, 421}, "127.0.0.1.evil.example:8080": {421, 421},
		"hipq.example.org": {421, 200}, "hipq.example.org:8443": {421, 200},
	} {
		for n, d := range []*desk{own, byProxy} {
			r := dbtest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/", nil))(t)
			r.Host = host
			r.Header.Set("X-User", "ada")
			dbtest.Same(t, answered(t, r, d.Jar.Cookies(r.URL)...), want[n], host, n)
		}
	}
}

// TestBack: a form's address to come back to is one of this server.
func TestBack(t *testing.T) {
	d := entered(t)
	id := d.add(job.Params{Type: "send"})[0]
	for back, want := range map[string]string{
		"/queues/emails?status=due&type=a%20b": "/queues/emails?status=due&type=a%20b", "": "/", "queues": "/", "//evil.example": "/", "https://evil.example": "/",
		`/\evil.example`: "/", `\\evil.example`: "/", "/\t/evil.example": "/", "\t//evil.example": "/", "/\n/evil.example": "/", "javascript:alert(1)": "/", "/ok\r\nX: y": "/", "///evil.example": "/",
	} {
		form := url.Values{"do": {"cancel"}, "back": {back}}
		dbtest.Same(t, d.do(http.MethodPost, "/queues/emails/jobs", form).Header.Get("Location"), want, fmt.Sprintf("%q", back))
		form.Set("id", fmt.Sprint(id))
		page := d.get(d.do(http.MethodPost, "/queues/emails/jobs", form).Header.Get("Location")).text
		href := regexp.MustCompile(`<a href="([^"]*)">Change nothing`).FindStringSubmatch(page)
		dbtest.Require(t, len(href) == 2, "%s", page)
		dbtest.Same(t, strings.ReplaceAll(href[1], "&amp;", "&"), want, fmt.Sprintf("%q", back))
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	d := open(t, ui.Options{ReadOnly: true}).enter()
	id := d.add(job.Params{Type: "send"}, job.Params{Type: "send"})[0]
	d.fail("no", id)
	for _, path := range []string{"/", "/queues/emails", "/queues/emails?status=failed", fmt.Sprint("/queues/emails/jobs/", id), "/failures", "/schedules"} {
		a := d.get(path)
		dbtest.Same(t, a.StatusCode, http.StatusOK, path)
		dbtest.Ensure(t, !strings.Contains(a.text, `method="post"`) && !strings.Contains(a.text, "checkbox"), "%s has a form: %.300s", path, a.text)
	}
	dbtest.Same(t, d.get("/enqueue").StatusCode, http.StatusNotFound)
	for _, path := range []string{"/queues/emails/jobs", "/tasks/1", "/queues/emails/pause", "/enqueue", "/schedules/nightly"} {
		form := url.Values{"do": {"retry"}, "id": {fmt.Sprint(id)}, "queue": {"emails"}, "type": {"send"}, "pause": {"yes"}}
		dbtest.Same(t, d.do(http.MethodPost, path, form).StatusCode, http.StatusForbidden, path)
	}
	j := dbtest.Must(d.q.Get(t.Context(), id))(t)
	dbtest.Same(t, j.Status, job.StatusFailed)
}

// TestFailuresThatMatch: an age is one from now, and the buttons are for the jobs that match.
func TestFailuresThatMatch(t *testing.T) {
	d := entered(t)
	ids := d.add(job.Params{Type: "send"}, job.Params{Type: "send"})
	d.fail("can't reach 10.0.0.1", ids[0])
	d.fail("can't reach 10.0.0.2", ids[1])
	page := d.get("/failures?text=10.0.0.1").text
	dbtest.Ensure(t, strings.Contains(page, ">1 job</a>") && strings.Contains(page, `<input type="hidden" name="text" value="10.0.0.1">`), "%s", page)
	dbtest.Ensure(t, regexp.MustCompile(`href="/queues/emails.[^"]*text=10.0.0.1[^"]*">1 job`).MatchString(page), "%s", page)

	const lately = "/failures?since=3s"
	dbtest.Ensure(t, strings.Contains(d.get(lately).text, ">2 jobs</a>"), "they have failed lately")
	dbtest.Eventually(t, "old failures are gone", func() bool { return strings.Contains(d.get(lately).text, "No job has failed") })
}

// TestOlderActivity: pages have all entries, also if hundreds have one time.
func TestOlderActivity(t *testing.T) {
	d := entered(t)
	dbtest.Must(d.q.EnqueueMany(t.Context(), slices.Repeat([]job.Params{{Type: "send"}}, 250)))(t)
	seen := map[string]bool{}
	for path, pages := "/activity", 0; path != ""; pages++ {
		dbtest.Require(t, pages < 9, "%d pages", pages)
		page := d.get(path).text
		for _, m := range regexp.MustCompile(`href="(/queues/emails/jobs/\d+)"`).FindAllStringSubmatch(page, -1) {
			dbtest.Ensure(t, !seen[m[1]], "%s twice", m[1])
			seen[m[1]] = true
		}
		path = ""
		if m := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(page); m != nil {
			path = html.UnescapeString(m[1])
		}
	}
	dbtest.Same(t, len(seen), 250, "jobs")

	dbtest.Must(d.q.EnqueueMany(t.Context(), slices.Repeat([]job.Params{{Type: "send"}}, 25_000)))(t)
	dbtest.Ensure(t, strings.Contains(d.get("/activity?job=1").text, `href="/queues/emails/jobs/1"`), "a job's old entry isn't found at once")
}

// TestProxy: a proxy says who asks, and the activity names that person.
func TestProxy(t *testing.T) {
	t.Parallel()
	d := open(t, ui.Options{UserHeader: "X-Remote-User"})
	dbtest.Same(t, d.get("/").StatusCode, http.StatusForbidden)
	dbtest.Same(t, d.get("/?token=").StatusCode, http.StatusForbidden)
	dbtest.Same(t, d.do(http.MethodGet, "/", nil, "X-Remote-User", "").StatusCode, http.StatusForbidden)
	who := []string{"X-Remote-User", "ada <b>"}
	a := d.do(http.MethodGet, "/", nil, who...)
	dbtest.Ensure(t, a.StatusCode == http.StatusOK && strings.Contains(a.text, "ada &lt;b&gt;"), "%d %s", a.StatusCode, a.text)

	ids := d.add(job.Params{Type: "send"}, job.Params{Type: "send"})
	d.fail("no", ids[1])
	for n, do := range []string{"cancel", "retry"} {
		asked := d.do(http.MethodPost, "/queues/emails/jobs", url.Values{"do": {do}, "id": {fmt.Sprint(ids[n])}}, who...)
		dbtest.Same(t, d.do(http.MethodPost, asked.Header.Get("Location"), url.Values{}, who...).StatusCode, http.StatusSeeOther)
	}
	a = d.do(http.MethodPost, "/enqueue", url.Values{"queue": {"emails"}, "type": {"send"}}, who...)
	dbtest.Ensure(t, a.StatusCode == http.StatusSeeOther, "%d %s", a.StatusCode, a.text)
	var by []string
	dbtest.OK(t, activity.New(d.db).Find(t.Context(), activity.Filter{}, func(e activity.Entry) error {
		if e.Output != activity.None {
			by = append(by, fmt.Sprintf("%s %d %s", e.State, e.JobID, e.Output))
		}
		return nil
	}))
	dbtest.Same(t, strings.Join(by, "\n"), fmt.Sprintf("cancelled %d by ada <b>\nadded %d by ada <b>\nretried %d by ada <b>\nadded %d by ada <b>", ids[0], ids[1]+1, ids[1], ids[1]+2))
}

func TestNoSuchThing(t *testing.T) {
	d := entered(t)
	id := d.add(job.Params{Type: "send"})[0]
	one := fmt.Sprint("/queues/emails/jobs/", id)
	for path, status := range map[string]int{
		"/nowhere": 404, "/queues/": 404, "/queues/none": 404, "/queues/none/jobs/1": 404, "/queues/emails/jobs/99": 404, "/queues/emails/jobs/0": 404, "/queues/emails/jobs/-1": 404,
		"/queues/emails/jobs/x": 404, "/queues/emails/jobs/99999999999999999999": 404, one: 200, one + "/data": 200, one + "/output": 404, one + "/..%2fdata": 404,
		"/queues/emails?status=odd": 400, "/queues/emails?status=due&status=x": 200, "/queues/emails?after=x": 400, "/queues/emails?status=due&after=x/1": 400,
		"/queues/emails?status=due&after=%27/1": 400, "/queues/emails?fingerprint=zz": 400, "/queues/emails?since=soon": 400, "/queues/emails?since=2h": 200,
		"/queues/emails?type=%27%22%3E": 200, "/queues/emails?text=%25_%27": 200, "/queues/emails?key=%00": 200, "/queues/%00": 404,
		"/failures?state=finished": 400, "/failures?queue=none": 200, "/failures?since=x": 400, "/activity?job=x": 400, "/activity?before=x": 400, "/activity?state=odd": 400,
		"/activity?queue=none": 200, "/tasks/1": 404, "/tasks/x": 404, "/files/none": 404, "/files/job.html": 404, "/files/..%2fui.go": 404, "/files/ui.js": 200, "/files/ui.css": 200, "/files/": 404,
		"/schedules": 200, "/workers": 200, "/metrics": 200, "/enqueue": 200, "/enqueue?queue=none&type=%3Cb%3E": 200, "/failures": 200, "/activity": 200,
	} {
		a := d.get(path)
		dbtest.Same(t, a.StatusCode, status, path)
		if status < 400 || strings.HasPrefix(path, "/files/") {
			continue
		}
		dbtest.Ensure(t, strings.Contains(a.text, `<p class="said bad" role="alert">`) && strings.Contains(a.text, "</html>"), "%s is no page: %s", path, a.text)
	}
	dbtest.Ensure(t, strings.Contains(d.get("/queues/emails?type=0").text, "status=due&amp;type=0"), "the tabs forget the type 0")
	for _, path := range []string{"/", "/queues/emails", one, one + "/data", "/failures", "/activity", "/files/ui.css"} {
		a, whole := d.do(http.MethodHead, path, nil), d.get(path)
		dbtest.Ensure(t, a.StatusCode == http.StatusOK && a.text == "" && a.Header.Get("Content-Type") == whole.Header.Get("Content-Type"), "HEAD %s: %d, %q, %v", path, a.StatusCode, a.text, a.Header)
	}
	for path, form := range map[string]url.Values{
		"/queues/emails/jobs?x=1":   {"do": {"cancel"}, "id": {"one"}},
		"/queues/emails/jobs?all=1": {"do": {"cancel"}, "all": {"1"}}, "/queues/emails/jobs?x=3": {"do": {"cancel"}, "status": {"odd"}},
		"/schedules/nightly": {"do": {"explode"}},
	} {
		dbtest.Same(t, d.do(http.MethodPost, path, form).StatusCode, http.StatusBadRequest, path, form)
	}
	for _, path := range []string{"/queues/none/jobs", "/queues/none/pause"} {
		dbtest.Same(t, d.do(http.MethodPost, path, url.Values{"do": {"cancel"}, "id": {"1"}}).StatusCode, http.StatusNotFound, path)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		dbtest.Same(t, d.do(method, "/activity", url.Values{}).StatusCode, http.StatusMethodNotAllowed, method)
	}
}

// TestDownloads: a text of a job is a file, which no browser runs.
func TestDownloads(t *testing.T) {
	d := entered(t)
	data := "<script>alert(1)</script>\r\n" + strings.Repeat("x", 100_000)
	id := d.add(job.Params{Type: "send", Data: data})[0]
	d.fail("<b>no</b>", id)
	for name, want := range map[string]string{"data": data, "error": "<b>no</b>", "result": "NONE"} {
		a := d.get(fmt.Sprintf("/queues/emails/jobs/%d/%s", id, name))
		dbtest.Same(t, a.text, want, name)
		dbtest.Same(t, a.Header.Get("Content-Type"), "application/octet-stream")
		dbtest.Same(t, a.Header.Get("Content-Disposition"), fmt.Sprintf(`attachment; filename="emails-%d-%s.txt"`, id, name))
	}
}

// TestActions: what a person asks for happens, and the page says what didn't.
func TestActions(t *testing.T) {
	d := entered(t)
	const jobs = "/queues/emails/jobs"
	ids := d.add(slices.Repeat([]job.Params{{Type: "send"}}, 7)...)
	some := func(n ...int) (list []string) {
		for _, i := range n {
			list = append(list, fmt.Sprint(ids[i]))
		}
		return list
	}
	status := func(n int) job.Status { return dbtest.Must(d.q.Get(t.Context(), ids[n]))(t).Status }

	asked := d.get(d.do(http.MethodPost, jobs, url.Values{"do": {"cancel"}, "id": some(0, 1)}).Header.Get("Location"))
	dbtest.Ensure(t, asked.StatusCode == http.StatusOK && strings.Contains(asked.text, "<h1>Cancel 2 jobs of emails?</h1>"), "%s", asked.text)
	dbtest.Same(t, status(0), job.StatusAvailable, "asked, not done")
	dbtest.Same(t, d.said(d.act(jobs, url.Values{"do": {"cancel"}, "id": some(0, 1)})), "2 jobs of emails were cancelled.")
	dbtest.Same(t, status(1), job.StatusClosed)
	dbtest.Same(t, d.said(d.act(jobs, url.Values{"do": {"cancel"}, "id": some(1, 2)})), "1 job of emails was cancelled. 1 job was not: Cancel job 2 of emails: the job is final.")
	dbtest.Same(t, d.said(d.act(jobs, url.Values{"do": {"cancel"}, "id": {"999"}})), "0 jobs of emails were cancelled. 1 job was not: Job 999 of emails: no such job.")
	dbtest.Same(t, d.said(d.act(jobs, url.Values{"do": {"retry"}, "id": some(3)})), "0 jobs of emails were retried. 1 job was not: Retry job 4 of emails: the job is not final: it is initial.")
	dbtest.Same(t, d.said(d.act(jobs, url.Values{"do": {"cancel"}})), "No job was selected, so nothing was changed.")

	d.fail("broken 1", ids[3], ids[4])
	d.fail("other", ids[5])
	dbtest.Same(t, d.said(d.act(jobs, url.Values{"do": {"dismiss"}, "id": some(5)})), "1 job of emails was dismissed.")
	all := url.Values{"do": {"retry"}, "status": {"failed"}, "text": {"broken"}}
	task := d.do(http.MethodPost, jobs+"?all=1", all).Header.Get("Location")
	d.fail("broken 2", ids[2])
	d.add(job.Params{Type: "send", Key: dbtest.Must(d.q.Get(t.Context(), ids[4]))(t).Key})
	dbtest.Same(t, d.said(d.do(http.MethodPost, task, url.Values{})), "1 job of emails was retried. 1 job was not: Job 8 has its type and key, and is not final.")
	dbtest.Same(t, status(3), job.StatusClosed)
	dbtest.Same(t, status(2), job.StatusFailed, "failed after the question")
	dbtest.Same(t, d.said(d.act(jobs, url.Values{"do": {"again"}, "id": some(3, 1)})), "1 job of emails was added again. 1 job was not: Job 9 has its type and key, and is not final.")
	dbtest.Same(t, d.said(d.act(jobs, url.Values{"do": {"reschedule"}, "id": some(6), "at": {"2100-01-01 10:00"}})), "1 job of emails was rescheduled.")
	dbtest.Same(t, status(6), job.StatusScheduled)
	dbtest.Ensure(t, strings.Contains(d.said(d.act(jobs, url.Values{"do": {"reschedule"}, "id": some(6), "at": {"whenever"}})), "is not a time"), "a wrong time")
	dbtest.Same(t, d.said(d.act(jobs, url.Values{"do": {"now"}, "id": some(6)})), "1 job of emails was rescheduled to now, or to the opening of its time window.")
	dbtest.Same(t, status(6), job.StatusAvailable)
	dbtest.Same(t, d.said(d.act(jobs, url.Values{"do": {"stop"}, "id": some(6)})), "0 jobs of emails were told to stop. 1 job was not: Stop jobs of emails: the job has not been started.")

	dbtest.Same(t, d.said(d.act("/queues/emails/pause", url.Values{"pause": {"yes"}})), "The queue is paused: no job starts. Running jobs end as usual.")
	dbtest.Same(t, dbtest.Must(admin.Of(d.q).Paused(t.Context()))(t), true)
	d.said(d.act("/queues/emails/pause", url.Values{"pause": {"no"}}))
	dbtest.Same(t, dbtest.Must(admin.Of(d.q).Paused(t.Context()))(t), false)
}

// TestFailuresByHour: each kind of failure has a chart of the last week by hours.
func TestFailuresByHour(t *testing.T) {
	d := entered(t)
	hour := time.Now().UTC().Truncate(time.Hour)
	for n, at := range []time.Time{hour.Add(-30 * time.Hour), hour.Add(-20 * time.Hour), hour.Add(-20*time.Hour + time.Minute), hour.Add(-200 * time.Hour)} {
		id := d.add(job.Params{Type: "send"})[0]
		d.fail(fmt.Sprint("broken ", n), id)
		d.exec("UPDATE shop_emails SET update_time = ? WHERE id = ?", at.Format("2006-01-02 15:04:05.000000"), id)
	}
	page := d.get("/failures").text
	// 137 is 30 hours ago, or 136 if an hour has ended meanwhile
	drawn := regexp.MustCompile(`<path d="M13[67]\.08 100V50h\.84V100zM14[67]\.08 100V0h\.84V100z"/>`)
	dbtest.Ensure(t, drawn.MatchString(page) && strings.Contains(page, ">4 jobs</a>"), "%s", page)
}

func TestEnqueue(t *testing.T) {
	d := entered(t)
	form := url.Values{"queue": {"emails"}, "type": {"send"}, "key": {"k"}, "data": {`{"a": 1}`}, "priority": {"7"}, "at": {"2100-01-01 10:00"}}
	a := d.do(http.MethodPost, "/enqueue", form)
	dbtest.Same(t, a.Header.Get("Location"), "/queues/emails/jobs/1")
	dbtest.Same(t, d.said(a), "Job 1 was added.")
	j := dbtest.Must(d.q.Get(t.Context(), 1))(t)
	dbtest.Ensure(t, j.Key == "k" && j.Data == `{"a": 1}` && j.Priority == 7 && j.ScheduledRunTime.Year() == 2100, "%+v", j)
	dbtest.Same(t, d.said(d.do(http.MethodPost, "/enqueue", form)), "Job 1 has this type and key, and is not final. Nothing was added.")
	other := url.Values{"queue": {"emails"}, "type": {"other"}}
	a = d.do(http.MethodPost, "/enqueue", other)
	dbtest.Ensure(t, a.StatusCode == http.StatusUnprocessableEntity && strings.Contains(a.text, "known are: send.") && strings.Contains(a.text, `name="anyway"`), "a misspelt type: %d %s", a.StatusCode, a.text)
	other.Set("anyway", "1")
	dbtest.Same(t, d.said(d.do(http.MethodPost, "/enqueue", other)), "Job 2 was added. This config has no handler for its type.")
	for name, value := range map[string]string{"priority": "high", "at": "whenever", "type": "", "on-duplicate": "error", "key": strings.Repeat("k", 300), "data": strings.Repeat("x", job.MaxDataBytes+1)} {
		wrong := url.Values{"queue": {"emails"}, "type": {"send"}, "key": {"k"}, "data": {"<typed>"}}
		wrong.Set(name, value)
		a := d.do(http.MethodPost, "/enqueue", wrong)
		dbtest.Ensure(t, a.StatusCode == http.StatusUnprocessableEntity && strings.Contains(a.text, `role="alert"`) && (name == "data" || strings.Contains(a.text, "&lt;typed&gt;")), "%s: %d %.2000s", name, a.StatusCode, a.text)
	}
	family := "\U0001F468\u200d\U0001F469\u200d\U0001F467 &#x200d;"
	page := d.do(http.MethodPost, "/enqueue", url.Values{"queue": {"emails"}, "type": {"send"}, "priority": {"high"}, "data": {family}, "key": {"\u00ad"}}).text
	typed := regexp.MustCompile(`<textarea[^>]*>([^<]*)<`).FindStringSubmatch(page)[1]
	dbtest.Same(t, html.UnescapeString(typed), family, "typed characters come back")
	dbtest.Ensure(t, strings.Contains(page, "value=\"\u00ad\""), "and those of a key")
	d.add(job.Params{Type: "send", Key: "twice"})
	twice := url.Values{"queue": {"emails"}, "type": {"send"}, "key": {"twice"}, "on-duplicate": {"replace"}}
	dbtest.Ensure(t, strings.Contains(d.said(d.do(http.MethodPost, "/enqueue", twice)), "It was replaced."), "a replaced job isn't said to be")
}

// TestDue: a retry whose time has come is due, though no tick has made it available yet.
func TestDue(t *testing.T) {
	d := entered(t)
	id := d.add(job.Params{Type: "send", At: time.Now().Add(time.Hour)})[0]
	dbtest.Ensure(t, strings.Contains(d.get("/queues/emails").text, `<span class="badge scheduled">scheduled</span>`), "the list doesn't say that it is scheduled")
	dbtest.OK(t, admin.Of(d.q).Reschedule(t.Context(), id, admin.RescheduleOptions{At: time.Now().Add(200 * time.Millisecond)}))
	time.Sleep(300 * time.Millisecond)
	for _, path := range []string{"/queues/emails?status=due", fmt.Sprint("/queues/emails/jobs/", id)} {
		dbtest.Ensure(t, strings.Contains(d.get(path).text, `<span class="badge scheduled">due</span>`), "%s doesn't say that the job is due", path)
	}
}

// TestListOfRunning: a list renews itself while a job runs, because the activity says nothing of progress.
func TestListOfRunning(t *testing.T) {
	d := entered(t)
	id := d.add(job.Params{Type: "send"})[0]
	for _, c := range []struct{ status, every string }{{"available", ""}, {"running", ` data-every="4000"`}} {
		d.exec("UPDATE shop_emails SET status = ? WHERE id = ?", c.status, id)
		dbtest.Same(t, regexp.MustCompile(` data-every="\d+"`).FindString(d.get("/queues/emails").text), c.every, c.status)
	}
}

// TestReplacedFile: nothing is read from a file that another one has replaced, or added to it.
func TestReplacedFile(t *testing.T) {
	d := entered(t)
	dbtest.OK(t, os.Rename(d.file, d.file+".old"))
	for range 2 {
		dbtest.Same(t, d.get("/queues/emails").StatusCode, http.StatusGone)
		dbtest.Same(t, d.do(http.MethodPost, "/enqueue", url.Values{"queue": {"emails"}, "type": {"send"}}).StatusCode, http.StatusGone)
		dbtest.OK(t, os.WriteFile(d.file, nil, 0o600))
	}
	dbtest.OK(t, os.Rename(d.file+".old", d.file))
	dbtest.Same(t, d.get("/queues/emails").StatusCode, http.StatusOK)
}

// TestPages: each job that stays as it is comes on one page, whatever its status.
func TestPages(t *testing.T) {
	t.Parallel()
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		q := dbtest.Must(queue.New(db, queue.Options{Name: "emails"}))(t)
		const jobs = 10_000
		statuses := []string{"available", "submitted", "scheduled", "throttled", "locked", "running", "answered", "deciding", "awaiting", "undecided", "finished", "failed", "closed"}
		per := map[string]int{}
		var values []string
		for n := range jobs {
			status, wake, rank := statuses[n*n%len(statuses)], "NULL", fmt.Sprint(n%3)
			if status == "scheduled" || status == "awaiting" {
				wake = "'2100-01-01 00:00:00.000000'"
			}
			run := fmt.Sprintf("20%d-01-01 00:00:%02d.000000", map[bool]int{true: 20, false: 90}[n%2 == 0], n/400%60) // many at the same time
			values = append(values, fmt.Sprintf("('%s', '%s', %s, '%s', %d, 60, %s, 1, 'NONE')", []string{"send", "digest"}[n%2], status, wake, run, n%5, rank))
			per[status]++
			if len(values) == 500 {
				_, err := db.SQL.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type, status, wake_time, scheduled_run_time, attempt, timeout, priority, throttle_factor, time_windows) VALUES "+strings.Join(values, ","))
				dbtest.OK(t, err)
				values = nil
			}
		}
		visit := func(by admin.Filter, o admin.PageOptions) (ids map[int64]bool) {
			ids = map[int64]bool{}
			for by.Limit = 500; ; {
				list := dbtest.Must(admin.Of(q).Page(t.Context(), by, o))(t)
				for _, j := range list.Jobs {
					dbtest.Ensure(t, !ids[j.ID], "job %d twice", j.ID)
					ids[j.ID] = true
				}
				if list.Next == "" {
					return ids
				}
				dbtest.Require(t, list.Next != o.After, "it goes nowhere")
				o.After = list.Next
			}
		}
		dbtest.Same(t, len(visit(admin.Filter{}, admin.PageOptions{})), jobs)
		dbtest.Same(t, len(visit(admin.Filter{}, admin.PageOptions{Oldest: true, Within: time.Second})), jobs)
		sum := 0
		for _, status := range admin.Statuses {
			want := dbtest.Must(admin.Of(q).FindIDs(t.Context(), admin.Filter{Status: status}))(t)
			for _, o := range []admin.PageOptions{{}, {Oldest: true, Within: time.Second}} {
				got := visit(admin.Filter{Status: status}, o)
				for _, id := range want {
					dbtest.Ensure(t, got[id], "no job %d of %s", id, status)
				}
				dbtest.Same(t, len(got), len(want), status)
			}
			typed := visit(admin.Filter{Status: status, Type: "digest"}, admin.PageOptions{})
			dbtest.Same(t, len(typed), len(dbtest.Must(admin.Of(q).FindIDs(t.Context(), admin.Filter{Status: status, Type: "digest"}))(t)), status)
			if status != admin.Initial && status != admin.Retry && status != admin.Final && status != admin.Waiting {
				sum += len(want)
			}
		}
		dbtest.Same(t, sum, jobs)
		_, err := admin.Of(q).Page(t.Context(), admin.Filter{Status: admin.Due, Limit: 1}, admin.PageOptions{After: "x"})
		dbtest.Ensure(t, errors.Is(err, admin.ErrPage), "%v", err)
	}, "emails")
}

// TestBase: a proxy has the pages below a path, whether or not it takes the path away. Anybody may ask whether the database answers.
func TestBase(t *testing.T) {
	t.Parallel()
	d := open(t, ui.Options{Base: "/ops/hipq"})
	for _, path := range []string{"/healthz", "/ops/hipq/healthz"} {
		dbtest.Same(t, d.get(path).text, "ok\n")
	}
	dbtest.Same(t, d.get("/ops/hipq").Header.Get("Location"), "/ops/hipq/")
	entered := d.get("/ops/hipq/queues/emails?token=" + d.token)
	dbtest.Ensure(t, entered.Header.Get("Location") == "/ops/hipq/queues/emails" && entered.Cookies()[0].Path == "/ops/hipq/", "%v", entered.Header)
	d.add(job.Params{Type: "send", Data: `{"a": "href=\"/x\""}`})
	for _, path := range []string{"/", "/queues/emails?status=due", "/queues/emails/jobs/1", "/failures", "/enqueue", "/find?q=x", "/queues/emails/types?type=send"} {
		a := d.get("/ops/hipq" + path)
		dbtest.Same(t, a.StatusCode, http.StatusOK, path)
		wrong := regexp.MustCompile(`\b(?:href|src|action|formaction|data-copy)="/[^"]*"`).FindAllString(a.text, -1)
		dbtest.Ensure(t, len(wrong) > 5, "%s has links", path)
		dbtest.Ensure(t, !slices.ContainsFunc(wrong, func(link string) bool { return !strings.Contains(link, `="/ops/hipq/`) }), "%s: %s", path, wrong)
	}
	asked := d.do(http.MethodPost, "/ops/hipq/queues/emails/jobs", url.Values{"do": {"cancel"}, "id": {"1"}, "back": {"/queues/emails"}})
	task := asked.Header.Get("Location")
	dbtest.Ensure(t, strings.HasPrefix(task, "/ops/hipq/tasks/"), "%s", task)
	dbtest.Same(t, d.do(http.MethodPost, task, url.Values{}).Header.Get("Location"), "/ops/hipq/queues/emails")
	dbtest.OK(t, d.db.Close())
	dbtest.Same(t, open(t, ui.Options{}).get("/healthz").StatusCode, http.StatusOK)
	time.Sleep(1100 * time.Millisecond)
	dbtest.Same(t, d.get("/healthz").StatusCode, http.StatusServiceUnavailable, "without a database")
}

// TestSmallPages: pages are compressed, and a file is sent once.
func TestSmallPages(t *testing.T) {
	d := entered(t)
	r := dbtest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/files/ui.js", nil))(t)
	a := dbtest.Must(http.DefaultClient.Do(r))(t) // which asks for gzip, and needs no cookie
	dbtest.OK(t, a.Body.Close())
	dbtest.Ensure(t, a.Uncompressed && a.StatusCode == http.StatusOK, "%v", a.Header)
	dbtest.Same(t, d.do(http.MethodGet, "/files/ui.js", nil, "If-None-Match", a.Header.Get("ETag")).StatusCode, http.StatusNotModified)
	page := d.do(http.MethodGet, "/enqueue", nil, "Accept-Encoding", "gzip")
	dbtest.Ensure(t, page.Header.Get("Content-Encoding") == "gzip" && strings.HasPrefix(page.text, "\x1f\x8b"), "%v", page.Header)
}

// TestFind: a text in the data of any job is found, and what the search has passed is told.
func TestFind(t *testing.T) {
	d := entered(t)
	ids := d.add(job.Params{Type: "send", Key: "order-7", Data: `{"to": "ann@example.org"}`}, job.Params{Type: "send", Key: "order-8"})
	d.fail("554 relay access denied", ids[1])
	for text, want := range map[string]string{"ann@example.org": "order-7", "order-8": "order-8", "RELAY": "order-8", "emails/1": "order-7", "1": "order-7"} {
		page := d.get("/find?" + url.Values{"q": {text}}.Encode()).text
		dbtest.Ensure(t, strings.Contains(page, "<bdi>"+want+"</bdi></a>") && strings.Contains(page, "that was all.") && strings.HasSuffix(strings.TrimSpace(page), "</html>"), "%s: %s", text, page)
	}
	none := d.get("/find?q=nobody").text
	dbtest.Ensure(t, strings.Contains(none, "0 jobs found among 2: that was all."), "%s", none)
	dbtest.Ensure(t, strings.Contains(d.get("/find").text, "Type an id"), "an empty search")
}

// TestCauses: one cause of two types is one card, and one question with the error.
func TestCauses(t *testing.T) {
	d := entered(t)
	d.fail("send: 554 relay access denied", d.add(job.Params{Type: "send"}, job.Params{Type: "send"})...)
	d.fail("digest: 554 relay access denied", d.add(job.Params{Type: "digest"})...)
	page := d.get("/failures").text
	dbtest.Same(t, strings.Count(page, "<article"), 1, "cards")
	dbtest.Ensure(t, strings.Contains(page, "3 jobs</span>") && strings.Contains(page, "Retry 3 jobs"), "%s", page)
	form := url.Values{"do": {"retry"}, "status": {"failed"}}
	for _, m := range regexp.MustCompile(`name="kind" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		form.Add("kind", html.UnescapeString(m[1]))
	}
	task := d.do(http.MethodPost, "/failures", form).Header.Get("Location")
	asked := d.get(task).text
	dbtest.Ensure(t, strings.Contains(asked, "Retry 3 jobs of emails?") && strings.Contains(asked, "554 relay access denied") && strings.Contains(asked, "you can cancel it"), "%s", asked)
	dbtest.Same(t, d.said(d.do(http.MethodPost, task, url.Values{})), "3 jobs of emails were retried.")
	for _, one := range []string{"queue=emails&type=send&fingerprint=", "queue=emails&fingerprint=01234567", "queue=emails"} { // never all of a queue
		for _, status := range []string{"", "failed"} {
			a := d.do(http.MethodPost, "/failures", url.Values{"do": {"dismiss"}, "status": {status}, "kind": {one}})
			dbtest.Same(t, a.StatusCode, http.StatusBadRequest, one+" "+status)
		}
	}
	form.Del("status")
	dbtest.Same(t, d.do(http.MethodPost, "/failures", form).StatusCode, http.StatusBadRequest, "no status")
}

// TestBadNews: what was refused isn't told like a success, and what somebody typed stays.
func TestBadNews(t *testing.T) {
	d := entered(t)
	id := fmt.Sprint(d.add(job.Params{Type: "send"})[0])
	page := "/queues/emails/jobs/" + id
	for name, form := range map[string]url.Values{
		"a wrong time": {"do": {"reschedule"}, "id": {id}, "back": {page}, "at": {"next friday"}}, "no job": {"do": {"cancel"}},
		"a job that isn't there": {"do": {"cancel"}, "id": {"99"}, "back": {page}}, "a job that doesn't run": {"do": {"stop"}, "id": {id}, "back": {page}},
	} {
		told := d.get(d.act("/queues/emails/jobs", form).Header.Get("Location")).text
		dbtest.Ensure(t, strings.Contains(told, `<p class="said bad" role="alert">`), "%s: %s", name, told)
		dbtest.Ensure(t, name != "a wrong time" || strings.Contains(told, `name="at" value="next friday"`), "what was typed is lost: %s", told)
	}
	dbtest.Ensure(t, !strings.Contains(d.get(page).text, `role="alert"`), "it is told twice")
	done := d.get(d.act("/queues/emails/jobs", url.Values{"do": {"cancel"}, "id": {id, "99"}, "back": {page}}).Header.Get("Location")).text
	dbtest.Ensure(t, strings.Contains(done, `<p class="said" role="alert">1 job of emails was cancelled. 1 job was not:`), "%s", done)
	for path, verdict := range map[string]string{"/": `class="verdict warning" aria-labelledby="verdict"`, "/wall": `class="verdict warning"`} {
		dbtest.Ensure(t, strings.Contains(d.get(path).text, verdict), "%s: no worker has run, and it looks well", path)
	}
	d.exec("UPDATE shop_emails SET status = 'failed', attempt = 1, error = 'cancelled'")
	for n, state := range []string{"starting", "stopping", "failed"} {
		d.exec("INSERT INTO shop_activity (at, kind, state, queue, job_id, job_type, attempt, error) VALUES (?, 'job', ?, 'emails', ?, 'send', 1, 'cancelled')",
			time.Now().UTC().Add(time.Duration(n)*time.Minute).Format("2006-01-02 15:04:05.000000"), state, id)
	}
	story := d.get(page).text
	dbtest.Ensure(t, strings.Contains(story, "attempt 1, cancelled, ran 2 min") && strings.Contains(story, `class="run cancelled"`), "a stopped attempt: %s", story)
	for _, word := range []string{"<b>cancelled</b>", "it ended at 2", "with the error: cancelled"} {
		dbtest.Ensure(t, strings.Contains(story, word), "no %q: %s", word, story)
	}
}

// TestFarMatch: a list goes on for a while until it has found something, and says among how many jobs it has searched.
func TestFarMatch(t *testing.T) {
	d := entered(t)
	dbtest.Must(d.q.EnqueueMany(t.Context(), slices.Repeat([]job.Params{{Type: "send"}}, 3_000)))(t)
	d.exec("UPDATE shop_emails SET status = 'failed', wake_time = NULL, attempt = 1, error = CASE WHEN id > 3 THEN 'exit status 1' ELSE 'needle' END")
	far := func(found time.Duration) string {
		d.pages.Look(time.Nanosecond, found)
		return d.get("/queues/emails?status=failed&text=needle").text
	}
	first := far(0)
	dbtest.Ensure(t, regexp.MustCompile(`None among [\d,]{2,5} jobs`).MatchString(first) && !strings.Contains(first, `id="emails-3"`), "without time it looks at: %s", first)
	dbtest.Ensure(t, strings.Contains(far(time.Hour), `id="emails-3"`), "it gives up before it has found one")
}

// TestQuestion: a question names one job by its type and key, and the filter of all that match.
func TestQuestion(t *testing.T) {
	d := entered(t)
	ids := d.add(job.Params{Type: "send", Key: "order-7"}, job.Params{Type: "send", Key: "order-8"})
	ask := func(form url.Values) string {
		t.Helper()
		return d.get(d.do(http.MethodPost, "/queues/emails/jobs", form).Header.Get("Location")).text
	}
	one := ask(url.Values{"do": {"cancel"}, "id": {fmt.Sprint(ids[0])}})
	dbtest.Ensure(t, regexp.MustCompile(`<a href="/queues/emails/jobs/1"><bdi>send</bdi> <bdi>order-7</bdi></a>`).MatchString(one), "%s", one)
	dbtest.Ensure(t, !strings.Contains(one, "They ") && !strings.Contains(one, " them") && !strings.Contains(one, ">/queues"), "one job in the plural: %s", one)
	several := ask(url.Values{"do": {"cancel"}, "id": {"1", "2"}})
	dbtest.Ensure(t, strings.Contains(several, "Cancel 2 jobs of emails?") && !strings.Contains(several, ">/queues"), "%s", several)
	all := ask(url.Values{"do": {"cancel"}, "all": {"1"}, "status": {"due"}, "type": {"send"}})
	dbtest.Ensure(t, strings.Contains(all, "These are all jobs that match now: status due, type <bdi>send</bdi>."), "%s", all)
}

// TestKeptFilter: a wrong value of a filter is told above the form, which keeps what was typed.
func TestKeptFilter(t *testing.T) {
	d := entered(t)
	d.add(job.Params{Type: "send"})
	for path, kept := range map[string]string{
		"/queues/emails?since=foo&key=order-7": `name="key" value="order-7"`, "/queues/emails?since=foo&status=due": `name="since" value="foo"`,
		"/failures?since=foo&text=relay": `name="text" value="relay"`, "/activity?job=order-41917&text=relay": `name="job" value="order-41917"`,
	} {
		a := d.get(path)
		dbtest.Ensure(t, a.StatusCode == http.StatusBadRequest && strings.Contains(a.text, `<p class="said bad" role="alert">&#34;`) && strings.Contains(a.text, kept), "%s: %s", path, a.text)
		dbtest.Ensure(t, !strings.Contains(a.text, `class="row`) && !strings.Contains(a.text, `class="empty"`), "%s has a list: %s", path, a.text)
	}
	dbtest.Ensure(t, strings.Contains(d.get("/queues/emails").text, "<label>Key is <input"), "a key is a whole one")
}

// TestWorkersAndJobs: a running job leads to its worker, and the worker to its running jobs.
func TestWorkersAndJobs(t *testing.T) {
	d := entered(t)
	ids := d.add(job.Params{Type: "send", Key: "order-7"}, job.Params{Type: "send"})
	const worker = "0f8fad5b-d9cb-469f-a165-70867728950e"
	d.exec("UPDATE shop_emails SET status = 'running', attempt = 1, worker_id = ? WHERE id = ?", worker, ids[0])
	now := time.Now().UTC().Format("2006-01-02 15:04:05.000000")
	d.exec("INSERT INTO shop_workers (id, host, pid, state, slots, start_time, heartbeat, lock_until) VALUES (?, 'web1', 7, 'working', 4, ?, ?, ?)", worker, now, now, now)
	for _, path := range []string{"/queues/emails", "/queues/emails?status=running"} {
		page := d.get(path).text
		dbtest.Same(t, strings.Count(page, `<a href="/workers#worker-`+worker+`">worker 0f8fad5b</a>`), 1, page)
	}
	page := d.get("/workers").text
	dbtest.Ensure(t, strings.Contains(page, `id="worker-`+worker+`"`) && strings.Contains(page, `<a href="/queues/emails/jobs/1"><bdi>order-7</bdi></a>`), "%s", page)
}

// TestUntil: pages with numbers say until when those are, and have the first ones at once.
func TestUntil(t *testing.T) {
	d := entered(t)
	hour := time.Now().UTC().Add(-5 * time.Minute).Truncate(time.Hour).Add(-time.Hour) // the last complete one
	d.exec("INSERT INTO shop_activity (at, kind, state, queue, job_id, job_type) VALUES (?, 'job', 'added', 'emails', 1, 'send')", hour.Format("2006-01-02 15:04:05.000000"))
	for _, state := range []string{"starting", "failed", "finished"} {
		d.exec("INSERT INTO shop_activity (at, kind, state, queue, job_id, job_type) VALUES (?, 'job', ?, 'emails', 1, 'send')", time.Now().UTC().Format("2006-01-02 15:04:05.000000"), state)
	}
	const first = "No hour is measured yet"
	for _, path := range []string{"/", "/metrics"} {
		dbtest.Ensure(t, strings.Contains(d.get(path).text, first), "%s", path)
	}
	since := hour.Add(time.Hour).Format("2006-01-02T15:04:05Z")
	dbtest.Eventually(t, "the first hour's figures", func() bool {
		page := d.get("/").text
		return strings.Contains(page, ">50 %</td>") && strings.Contains(page, "Errors, lately") && strings.Contains(page, since)
	})
	dbtest.Ensure(t, strings.Contains(d.get("/wall").text, "finished, since <time"), "the wall")
	dbtest.Must(monitor.New(d.db).Aggregate(t.Context(), hour, monitor.AggregateOptions{}))(t)
	dbtest.Eventually(t, "the first hour is shown", func() bool { return !strings.Contains(d.get("/metrics").text, first) })
	for _, path := range []string{"/metrics", "/queues/emails/types?type=send"} {
		page := d.get(path).text
		dbtest.Ensure(t, regexp.MustCompile(`Until <time datetime="`+hour.Add(time.Hour).Format("2006-01-02T15:04:05Z")+`"[^>]*>[^<]*</time>, measured <time `).MatchString(page), "%s: %.6000s", path, page)
	}
}

// TestClosedWindow: a job that waits for its window is not told to run now.
func TestClosedWindow(t *testing.T) {
	d := entered(t)
	at := time.Now().UTC().Add(12 * time.Hour)
	windows := dbtest.Must(job.ParseWindows([]string{at.Format("15:04") + "-" + at.Add(time.Hour).Format("15:04")}))(t)
	id := fmt.Sprint(d.add(job.Params{Type: "send", Windows: &windows})[0])
	told := d.said(d.act("/queues/emails/jobs", url.Values{"do": {"now"}, "id": {id}}))
	dbtest.Ensure(t, told == "Nothing was changed: the time window of job 1 is closed until "+at.Format("2 Jan 15:04")+".", "%s", told)
}
