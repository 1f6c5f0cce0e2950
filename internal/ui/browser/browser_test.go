package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

var (
	hipq, axe string
	chromium  context.Context
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run builds hipq, and starts the browser.
func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "hipq-browser-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	hipq = filepath.Join(dir, "hipq")
	build := exec.Command("go", "build", "-o", hipq, ".")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build hipq: %w\n%s", err, out)
	}
	text, err := os.ReadFile("../../../.ci/browser/node_modules/axe-core/axe.min.js")
	if err != nil {
		return 1, errors.Join(err, errors.New("make test-browser gets axe-core"))
	}
	axe = string(text)
	program := "chromium"
	if named := os.Getenv("CHROMIUM"); named != "" {
		program = named
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(time.Minute))
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var quit context.CancelFunc
	chromium, quit = chromedp.NewContext(allocated)
	defer quit()
	if err := chromedp.Do(chromium); err != nil {
		return 1, fmt.Errorf("start %s: %w", program, err)
	}
	return m.Run(), nil
}

// shop is an instance with hipq ui.
type shop struct {
	t   *testing.T
	dir string
	db  *schema.DB
	q   *queue.Queue
	// url has the token, base doesn't.
	url, base string
	ui        *exec.Cmd
}

const config = `name: shop
database: %s
timezone: Europe/Berlin
queues:
  - name: emails
    job_types:
      - {name: send, handler: {exec: ["true"]}}
  - name: files
    job_types:
      - {name: compress, handler: {exec: ["true"]}}
`

const schedules = `schedules:
  - {name: nightly, when: "30 2 * * *", queue: files, type: compress}
`

// open starts hipq ui on an instance in SQLite, beside other tests.
func open(t *testing.T, flags ...string) *shop {
	t.Helper()
	t.Parallel()
	return openOn(t, "sqlite", filepath.Join(t.TempDir(), "shop.db"), "", config, flags...)
}

// openOn starts it on a database. direct is the database for the test, if it is another.
func openOn(t *testing.T, driver, source, direct, config string, flags ...string) *shop {
	t.Helper()
	if direct == "" {
		direct = source
	}
	s := &shop{t: t, dir: t.TempDir()}
	dbtest.OK(t, os.WriteFile(filepath.Join(s.dir, "hipq.yaml"), fmt.Appendf(nil, config, dbtest.Section(driver, source)), 0o600))
	s.run("init")
	s.db = dbtest.Open(t, driver, direct)
	s.q = dbtest.Must(queue.Open(t.Context(), s.db, queue.Options{Name: "emails"}))(t)
	s.start(flags...)
	return s
}

func (s *shop) command(args ...string) *exec.Cmd {
	c := exec.Command(hipq, args...)
	c.Dir = s.dir
	return c
}

func (s *shop) run(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...).CombinedOutput()
	dbtest.Require(s.t, err == nil, "hipq %v: %v\n%s", args, err, out)
	return string(out)
}

func (s *shop) start(flags ...string) {
	s.t.Helper()
	s.ui = s.command(append([]string{"ui", "--no-browser"}, flags...)...)
	out := dbtest.Must(s.ui.StdoutPipe())(s.t)
	s.ui.Stderr = os.Stderr
	dbtest.OK(s.t, s.ui.Start())
	s.t.Cleanup(s.stop)
	line := dbtest.Must(bufio.NewReader(out).ReadString('\n'))(s.t)
	s.url = strings.TrimSpace(strings.TrimPrefix(line, "hipq ui: "))
	s.base, _, _ = strings.Cut(s.url, "/?")
}

func (s *shop) stop() {
	if s.ui.ProcessState == nil {
		_ = s.ui.Process.Signal(syscall.SIGINT)
		_ = s.ui.Wait()
	}
}

func (s *shop) exec(statement string, args ...any) {
	s.t.Helper()
	dbtest.Must(s.db.SQL.ExecContext(s.t.Context(), statement, args...))(s.t)
}

func (s *shop) add(jobs ...job.Params) {
	s.t.Helper()
	dbtest.Must(s.q.EnqueueMany(s.t.Context(), jobs))(s.t)
}

// fail adds failed jobs.
func (s *shop) fail(n int, text string) {
	s.t.Helper()
	s.add(slices.Repeat([]job.Params{{Type: "send"}}, n)...)
	s.exec("UPDATE shop_emails SET status = 'failed', attempt = 3, error = ? WHERE status = 'available'", text)
}

// tab is a page of the browser. Each first one has cookies of its own.
type tab struct {
	context.Context
	t  *testing.T
	mu sync.Mutex
	// faults are what the browser complains about. expected are parts of those that the test expects.
	faults   []string
	expected []string
}

// enter opens a tab with the token.
func (s *shop) enter() *tab {
	s.t.Helper()
	b := newTab(chromium, s.t, chromedp.WithNewBrowserContext())
	b.do(chromedp.Navigate(s.url))
	b.wait(`location.search === "" && !!document.getElementById("page")`)
	return b
}

// another opens another tab of the same browser.
func (b *tab) another() *tab { return newTab(b.Context, b.t) }

func newTab(of context.Context, t *testing.T, o ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(of, o...)
	t.Cleanup(cancel)
	ctx, end := context.WithTimeout(ctx, 15*time.Minute)
	t.Cleanup(end)
	b := &tab{Context: ctx, t: t}
	dbtest.OK(t, chromedp.Do(ctx))
	dbtest.OK(t, chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.fault("script: " + (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
		case *runtime.EventConsoleAPICalled:
			b.fault(fmt.Sprintf("console: %s %s", e.Type, e.Args[0].Value))
		case *page.EventJavascriptDialogOpening:
			b.fault("dialog: " + e.Message)
			go func() { _, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{}) }()
		case *network.EventRequestWillBeSent:
			if u := e.Request.URL; !strings.HasPrefix(u, "http://127.0.0.1:") && !strings.HasPrefix(u, "file:") && !strings.HasPrefix(u, "about:") && !strings.HasPrefix(u, "data:") {
				b.fault("request: " + u)
			}
		case *network.EventLoadingFailed:
			if e.BlockedReason != "" {
				b.fault("blocked: " + e.BlockedReason.String())
			}
		}
	}))
	call(b, runtime.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	call(b, page.Enable, page.EnableParams{})
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, f := range b.faults {
			t.Error(f)
		}
	})
	return b
}

func (b *tab) fault(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.expected {
		if strings.Contains(text, e) {
			return
		}
	}
	b.faults = append(b.faults, text)
}

// call calls a command of the browser's protocol.
func call[P, R any](b *tab, c cdp.Command[P, R], params P) {
	b.t.Helper()
	dbtest.Must(chromedp.Call(b, c, params))(b.t)
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.t.Fatalf("%v; the page is\n%.2000s", err, b.text())
	}
}

func (b *tab) text() string {
	text, _ := chromedp.Run(b, chromedp.Evaluate[string](`document.body.innerText`)) // for messages
	return text
}

// open goes to a page, and waits until it has these texts.
func (b *tab) open(url string, texts ...string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	b.waitFor(texts...)
}

// openUntil goes to a page again and again, as a person does without JavaScript, until it has this text.
func (b *tab) openUntil(url, text string) {
	b.t.Helper()
	for until := time.Now().Add(time.Minute); !strings.Contains(b.text(), text) && time.Now().Before(until); {
		b.open(url)
	}
	b.waitFor(text)
}

// value is what an expression is in the page.
func value[T any](b *tab, expression string, o ...chromedp.EvaluateOption) T {
	b.t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression, o...))
	dbtest.Require(b.t, err == nil, "%.200s: %v", expression, err)
	return v
}

// wait waits until an expression is true, and returns how long that took.
func (b *tab) wait(expression string) time.Duration {
	b.t.Helper()
	began := time.Now()
	for time.Since(began) < 20*time.Second {
		is, err := chromedp.Run(b, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && is { // a page that goes away answers nothing
			return time.Since(began)
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.t.Fatalf("not %s; the page is\n%.2000s", expression, b.text())
	return 0
}

// waitFor waits for texts, and returns how long that took.
func (b *tab) waitFor(texts ...string) (took time.Duration) {
	b.t.Helper()
	for _, text := range texts {
		took += b.wait("document.body?.innerText.includes(" + quoted(text) + ")")
	}
	return took
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// click clicks on the first link or button with this text, as a person does, but not on the one that pauses updates. Then it waits
// until the page has these texts.
func (b *tab) click(text string, texts ...string) {
	b.t.Helper()
	b.press(text, chromedp.Click(fmt.Sprintf(`//*[self::a or self::button][contains(normalize-space(.), %s)][not(@id="pause")]`, quoted(text))))
	b.waitFor(texts...)
}

// clickOn clicks on the first element of a CSS selector.
func (b *tab) clickOn(selector string) {
	b.t.Helper()
	b.press(selector, chromedp.Click(chromedp.CSS(selector)))
}

func (b *tab) press(what string, click chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	var err error
	for range 8 { // a page that renews itself takes the element away while chromedp looks at it
		ctx, cancel := context.WithTimeout(b, 3*time.Second)
		err = chromedp.Do(ctx, click)
		cancel()
		if err == nil {
			return
		}
	}
	b.t.Fatalf("click %q: %v; the page is\n%.2000s", what, err, b.text())
}

// look sets how the page looks.
func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

const sideways = `[document.documentElement.scrollWidth - document.documentElement.clientWidth].concat(
	[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".wide, pre, .skip, nav")).slice(0, 3).map(e => e.outerHTML.slice(0, 150)))`

const judge = `axe.run({ resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })
	.then(r => r.violations.map(v => v.impact + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.any.map(a => a.message).join(" ")).join(" | ")))`

// check checks a page as it is.
func (b *tab) check(what string) {
	b.t.Helper()
	wide := value[[]any](b, sideways)
	n, _ := wide[0].(float64)
	dbtest.Ensure(b.t, n <= 0, "%s scrolls sideways by %v px: %v", what, n, wide[1:])
	title := value[string](b, "document.title")
	value[int](b, axe+";0")
	violations := value[[]string](b, judge, chromedp.EvalAwaitPromise)
	dbtest.Ensure(b.t, title != "owned" && title != "", "%s has the title %q", what, title)
	for _, v := range violations {
		b.t.Errorf("%s: %s", what, v)
	}
	if dir := os.Getenv("HIPQ_PICTURES"); dir != "" {
		png := dbtest.Must(chromedp.Run(b, chromedp.FullScreenshot(90)))(b.t)
		dbtest.OK(b.t, os.WriteFile(filepath.Join(dir, strings.NewReplacer("/", "_", "?", "_", " ", "-").Replace(what)+".jpg"), png, 0o600))
	}
}
