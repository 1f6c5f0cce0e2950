package browser

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/hipq/hipq/internal/dbtest"
)

const busyShop = `name: shop
database: %s
timezone: Europe/Berlin
queues:
  - name: emails
    throttle_limit: 8
    job_types:
      - {name: send, retry: {attempts: 5}, handler: {exec: ["true"]}}
      - {name: newsletter, handler: {exec: ["true"]}}
  - name: images
    job_types:
      - {name: thumbnail, handler: {exec: ["true"]}}
  - name: invoices
    job_types:
      - {name: print, time_windows: ["mon-fri 08:00-18:00"], handler: {exec: ["true"]}}
schedules:
  - {name: nightly-newsletter, when: "30 2 * * *", queue: emails, type: newsletter}
  - {name: clean-images, when: "0 * * * *", queue: images, type: thumbnail}
  - {name: monthly-invoices, when: "0 6 1 * *", queue: invoices, type: print}
`

// TestPictures makes the pictures of the docs, if HIPQ_DOCS is their folder. make pictures does.
func TestPictures(t *testing.T) {
	dir := os.Getenv("HIPQ_DOCS")
	dbtest.SkipIf(t, dir == "", "HIPQ_DOCS is not set")
	s := openOn(t, "sqlite", filepath.Join(t.TempDir(), "shop.db"), "", busyShop)
	waiting := s.busyShop()
	s.stop()
	s.start() // with the metrics
	b, report := s.enter(), s.report()
	page := dbtest.Must(os.ReadFile(filepath.Join(s.dir, "report.html")))(t)
	page = bytes.ReplaceAll(page, []byte(" --config "+s.dir+"/hipq.yaml"), nil) // as with one in /etc/hipq
	dbtest.OK(t, os.WriteFile(filepath.Join(s.dir, "report.html"), page, 0o600))
	for _, p := range []struct {
		name, address, scheme string
		width, height         int64
	}{
		{"ui", s.base + "/", "light", 1200, 750},
		{"ui-queue", s.base + "/queues/emails?status=due", "light", 1200, 620},
		{"ui-job", fmt.Sprint(s.base, "/queues/emails/jobs/", waiting), "light", 1200, 800},
		{"ui-failures", s.base + "/failures", "light", 1200, 560},
		{"ui-phone", s.base + "/", "dark", 390, 800},
		{"report", report, "light", 1200, 900},
		{"report-phone", report, "light", 390, 800},
	} {
		b.look(p.width, p.scheme)
		call(b, emulation.SetLocaleOverride, emulation.SetLocaleOverrideParams{Locale: "en-GB"})
		call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"})
		b.open(p.address)
		b.wait(`document.readyState === "complete"`)
		value[int](b, fmt.Sprintf(`document.body.style.height = "%dpx", document.body.style.overflow = "hidden", 0`, p.height-1))
		shot := dbtest.Must(chromedp.Run(b, chromedp.FullScreenshot(100)))(t)
		small := paletted(t, shot, int(p.height))
		dbtest.Ensure(t, len(small) < 80_000, "%s has %d bytes", p.name, len(small))
		dbtest.OK(t, os.WriteFile(filepath.Join(dir, p.name+".png"), small, 0o600))
	}
}

// paletted is a picture with its 256 most frequent colours, cut to a height, because that is much smaller.
func paletted(t *testing.T, shot []byte, height int) []byte {
	t.Helper()
	from := dbtest.Must(png.Decode(bytes.NewReader(shot)))(t)
	often := map[color.RGBA]int{}
	area := image.Rect(0, 0, from.Bounds().Dx(), min(height, from.Bounds().Dy()))
	for y := range area.Dy() {
		for x := range area.Dx() {
			often[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++
		}
	}
	all := make([]color.RGBA, 0, len(often))
	for c := range often {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int { return often[b] - often[a] })
	var colours color.Palette
	for _, c := range all[:min(len(all), 256)] {
		colours = append(colours, c)
	}
	to := image.NewPaletted(area, colours)
	draw.Draw(to, area, from, image.Point{}, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	dbtest.OK(t, encoder.Encode(&out, to))
	return out.Bytes()
}

// busyShop fills the instance as a shop does in a week, and returns a job that waits.
func (s *shop) busyShop() (waiting int64) {
	s.t.Helper()
	now := time.Now().UTC()
	at := func(ago time.Duration) string { return now.Add(-ago).Format("2006-01-02 15:04:05.000000") }
	var values []string
	for h := 7 * 24; h >= 1; h-- {
		hour := now.Truncate(time.Hour).Add(time.Duration(-h) * time.Hour)
		busy := 1 + math.Sin(float64(hour.Hour()-9)/24*2*math.Pi)
		for _, q := range []struct {
			queue, jobType string
			jobs           float64
		}{{"emails", "send", 32}, {"emails", "newsletter", 4}, {"images", "thumbnail", 60}, {"invoices", "print", 5}} {
			n := 1 + int(q.jobs*(0.15+busy)*(0.9+0.2*math.Abs(math.Sin(float64(h*7)))))
			for k := range n {
				state, run := "finished", 200+37*(k%19)
				if k%41 == 40 || q.jobType == "send" && h < 4 && k%7 == 0 {
					state = []string{"error", "error", "failed"}[k%3]
				}
				stamp := hour.Add(time.Duration(k) * time.Hour / time.Duration(n)).Format("2006-01-02 15:04:05.000000")
				values = append(values, fmt.Sprintf("('%s', 'job', 'starting', '%s', %d, '%s', 1, %d, 0)", stamp, q.queue, k+1, q.jobType, 400+int(9000*busy)*(k%11)/10),
					fmt.Sprintf("('%s', 'job', '%s', '%s', %d, '%s', 1, 0, %d)", stamp, state, q.queue, k+1, q.jobType, run))
			}
		}
	}
	for some := range slices.Chunk(values, 500) {
		s.exec("INSERT INTO shop_activity (at, kind, state, queue, job_id, job_type, attempt, wait_ms, run_ms) VALUES " + strings.Join(some, ","))
	}
	s.run("monitor", "--missing")
	s.exec("UPDATE shop_metrics SET backlog = started / 6, oldest_due_ms = 40000, gauge_time = hour WHERE job_type <> ''")
	const columns = "INSERT INTO shop_%s (job_type, job_key, job_data, status, wake_time, scheduled_run_time, create_time, start_time, update_time, timeout, priority, throttle_factor, time_windows, attempt, error, worker_id)" +
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 60, 100, 1, ?, ?, ?, ?)"
	n := 4700
	job := func(queue, jobType, status string, ago time.Duration, attempt int, failure string) {
		n++
		var wake any
		if status == "scheduled" {
			wake = at(-ago)
			s.exec(fmt.Sprintf(columns, queue), jobType, fmt.Sprint("order-", n), fmt.Sprintf(`{"order": %d, "to": "ann@example.org", "language": "en"}`, n), status, wake, wake, at(ago), nil, at(ago), "NONE", attempt, failure, "NONE")
			return
		}
		s.exec(fmt.Sprintf(columns, queue), jobType, fmt.Sprint("order-", n), fmt.Sprintf(`{"order": %d, "to": "ann@example.org", "language": "en"}`, n), status, wake, at(ago), at(ago), at(ago), at(ago), "NONE", attempt, failure, map[bool]string{true: "0199-1", false: "NONE"}[status == "running"])
	}
	for k := range 240 {
		job("images", "thumbnail", "finished", time.Duration(k+3)*time.Minute, 1, "NONE")
		job("emails", []string{"send", "newsletter"}[k%2], "finished", time.Duration(k+3)*time.Minute, 1, "NONE")
		if k < 60 {
			job("invoices", "print", "finished", time.Duration(k+60)*time.Minute, 1, "NONE")
		}
	}
	for k := range 132 {
		job("emails", "send", "failed", time.Duration(20+k/2)*time.Minute, 5, fmt.Sprintf("exit status 1: 554 5.7.1 <ann%d@example.org>: relay access denied", k))
	}
	for k := range 3 {
		job("images", "thumbnail", "failed", time.Duration(50+9*k)*time.Minute, 3, fmt.Sprintf("timeout after 1m: upload/%d.tiff", 200+k))
	}
	job("invoices", "print", "failed", 3*time.Hour, 1, "exit status 65: PHP Fatal error: Uncaught TypeError: round(): Argument #1 ($num) must be of type int|float, string given\nin /srv/shop/invoice.php:114")
	for k := range 214 {
		job("emails", []string{"send", "send", "newsletter"}[k%3], "available", time.Duration(k)*4*time.Second, 0, "NONE")
	}
	for k := range 12 {
		job("images", "thumbnail", "available", time.Duration(k)*time.Second, 0, "NONE")
		job("invoices", "print", "scheduled", time.Duration(k+30)*time.Minute, 0, "NONE")
	}
	for k := range 6 {
		job([]string{"emails", "images"}[k%2], []string{"send", "thumbnail"}[k%2], "running", time.Duration(2*k)*time.Second, 1, "NONE")
	}
	job("emails", "send", "scheduled", 8*time.Minute, 2, "exit status 1: 451 4.3.0 mail server temporarily rejected message")
	dbtest.OK(s.t, s.db.SQL.GetContext(s.t.Context(), &waiting, "SELECT MAX(id) FROM shop_emails"))
	entry := func(ago time.Duration, state string, attempt, wait, run int, failure, output string) {
		s.exec("INSERT INTO shop_activity (at, kind, state, queue, job_id, job_type, job_key, worker_id, host, pid, attempt, wait_ms, run_ms, error, output) VALUES (?, 'job', ?, 'emails', ?, 'send', ?, '0199-1', ?, 4711, ?, ?, ?, ?, ?)",
			at(ago), state, waiting, fmt.Sprint("order-", n), map[bool]string{true: "NONE", false: "web1"}[state == "added"], attempt, wait, run, failure, output)
	}
	entry(8*time.Minute, "added", 0, 0, 0, "NONE", "NONE")
	entry(8*time.Minute-2*time.Second, "starting", 1, 1800, 0, "NONE", "NONE")
	entry(8*time.Minute-3*time.Second, "error", 1, 0, 840, "exit status 1: 451 4.3.0 mail server temporarily rejected message", "connect to mail.example.org:25\n451 4.3.0 mail server temporarily rejected message")
	entry(3*time.Minute, "starting", 2, 1200, 0, "NONE", "NONE")
	entry(3*time.Minute-time.Second, "error", 2, 0, 910, "exit status 1: 451 4.3.0 mail server temporarily rejected message", "connect to mail.example.org:25\n451 4.3.0 mail server temporarily rejected message")
	for k, host := range []string{"web1", "web1", "web2"} {
		s.exec("INSERT INTO shop_workers (id, host, pid, state, slots, start_time, heartbeat, lock_until) VALUES (?, ?, ?, 'working', 4, ?, ?, ?)", fmt.Sprint("0199-", k+1), host, 4711+k, at(time.Duration(20*k+9)*time.Second), at(3*time.Second), at(-50*time.Second))
	}
	return waiting
}
