package cmd_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hipq/hipq/cmd"
	"github.com/hipq/hipq/internal/dbtest"
)

// forged has lines that a text must not pass for, because a command prints such lines itself.
var forged = []string{
	"state               settled", "error  none", "hipq: all is well", "attempt 9: finished", "job 1: attempt 9 finished",
}

// tricks are texts that would control a terminal, or look like another line of a command.
var tricks = []string{
	"\x1b[31mred\x1b]0;title\x07", "one\rtwo\r\nthree", "\u009b31m\u0085", "\u202egnp.exe\u202d\u202c", "\x7f\x08\x00", "\u2066a\u2069\u200e\u200f\u061c",
	"a\u2028b\u2029c\vd\fe", "tab\tand\u00a0more 😀 ä", "k\n" + strings.Join(forged, "\n"), "\xff\xfea\xc3", "\U000e0041\ufeff",
}

// trick finds a character that isn't only shown, or a line that a command never prints.
func trick(text string) string {
	for i, r := range text {
		switch {
		case r == '\n', r == '\t':
		case r < ' ', 0x7f <= r && r < 0xa0, 0x200b <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f, r == 0x61c,
			r == 0xfeff, 0xe0000 <= r && r <= 0xe0fff:
			return fmt.Sprintf("%q at %d in %.300q", r, i, text[max(0, i-100):])
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			return fmt.Sprintf("no character at %d in %.300q", i, text[max(0, i-100):])
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for _, f := range forged {
			if line == f {
				return fmt.Sprintf("the line %q", f)
			}
		}
	}
	return ""
}

// shown runs a command in this process and returns its output.
func shown(args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	code = cmd.Main(args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// apart runs a command in its own process, which can start itself as its guard.
func (h hostileDB) apart(args ...string) (code int, out, errs string) {
	c := exec.Command("hipq", args...)
	var stdout, stderr bytes.Buffer
	c.Dir, c.Stdout, c.Stderr = h.dir, &stdout, &stderr
	_ = c.Run()
	return c.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// A terminal only shows texts from the database, and none of them passes for a line of hipq.
func TestTextsAreShownOnly(t *testing.T) {
	dbtest.Long(t, "one command after the other")
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		h := openHostile(t, driver, source, false)
		for n, text := range tricks {
			h.insertTrick(n, text)
		}
		ask := func(args ...string) (out string) {
			t.Helper()
			ran := shown
			if args[0] == "run" || args[0] == "work" {
				ran = h.apart
			}
			code, out, errs := ran(append(args, "--config", h.config())...)
			dbtest.Ensure(t, code != 64 && code != 78, "hipq %q: exit code %d: %.300s", args, code, errs)
			dbtest.Same(t, cmp.Or(trick(out), trick(errs)), "", "hipq %.200q", args)
			return out
		}
		for _, args := range [][]string{
			{"jobs"}, {"jobs", "plain", "--state", "failed"}, {"activity"}, {"activity", "--limit", "0"}, {"status"}, {"purge", "--dry-run"}, {"monitor"},
		} {
			out := ask(args...)
			dbtest.Ensure(t, out != "" || args[0] == "monitor", "hipq %q: nothing", args)
			ask(append(args, "--json")...)
		}
		for _, id := range h.ids("plain", "1 = 1") {
			for _, verb := range []string{"show", "why"} {
				ask(verb, "plain", id)
				ask(verb, "plain", id, "--json")
			}
			ask("cancel", "plain", id, "--running")
		}
		for _, text := range tricks[:len(tricks)-2] { // those that are UTF-8
			if text == "\x7f\x08\x00" {
				continue // a program's arguments can't have a NUL
			}
			ask("complete", "plain", "send", text)
			ask("fail", "plain", "send", text, "--error", text)
			ask("enqueue", "plain", "send", "--data", text, "--key", text)
			ask("jobs", "--key", text)
			ask("jobs", "--error", text)
		}
		h.printTricks()
		ask("run", "plain", h.add("run"))
		last := h.add("work")
		ask("work", "-v")
		out := ask("show", "plain", last)
		dbtest.Ensure(t, strings.Contains(out, "\n    "+forged[0]+"\n"), "show says %q", out)

		// JSON keeps the value.
		for n, text := range tricks {
			id := h.ids("plain", fmt.Sprintf("status = 'failed' AND priority = %d", n))[0]
			var job struct {
				Key      string `json:"job_key"`
				Attempts []struct{ Error, Output string }
			}
			dbtest.OK(t, json.Unmarshal([]byte(ask("show", "plain", id, "--json")), &job))
			want := strings.ToValidUTF8(text, "\uFFFD")
			dbtest.Ensure(t, !utf8.ValidString(text) || job.Key == want && job.Attempts[0].Output == want, "%q is %+q", want, job)
		}
	})
}

// No job type starts a line of cron's mail, or spans several lines in a command there.
func TestMailsLinesAreHipqsOwn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		h := openHostile(t, driver, source, false)
		config := dbtest.Must(os.ReadFile(h.config()))(t)
		dbtest.OK(t, os.WriteFile(h.config(), bytes.Replace(config, []byte("mail: off\n"), nil, 1), 0o600))
		const lines = "s\n\thipq: all is well\n  retry: rm x\r\v\x1b"
		for _, row := range []map[string]string{
			{"job_type": "'" + lines + "1'"}, // from plain SQL: refused, and so a failure
			{
				"job_type": "'" + lines + "2'", "status": "'available'", "scheduled_run_time": someTime,
				"timeout": "60", "priority": "100", "throttle_factor": "1", "time_windows": "'NONE'",
			}, // no worker handles it
		} {
			dbtest.OK(t, h.insert("plain", row))
		}
		check := func(mail string) {
			t.Helper()
			for _, said := range []string{"failed for good", "no worker has handled that type for a day"} {
				dbtest.Same(t, strings.Count(mail, said), 1, "the mail says %q and not %q once", mail, said)
			}
			for line := range strings.Lines(mail) {
				if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(strings.TrimSpace(line), "hipq: all is") || strings.HasPrefix(line, "  retry: rm") {
					t.Errorf("the mail has the line %q", line)
				}
			}
			dbtest.Same(t, trick(mail), "", "the mail")
		}
		_, out, errs := h.apart("work", "--config", h.config())
		check(errs)
		dbtest.Ensure(t, out == "", "it prints %q", out)
		if _, err := h.conn.ExecContext(t.Context(), "DELETE FROM shop_notices"); err != nil { // else nothing is reported again
			t.Fatal(err)
		}
		_, _, errs = h.apart("work", "--json", "--config", h.config())
		mail := ""
		for line := range strings.Lines(errs) {
			var said struct{ Notice string }
			err := json.Unmarshal([]byte(line), &said)
			dbtest.Ensure(t, err == nil, "%q: %v", line, err)
			mail += said.Notice + "\n"
		}
		check(mail)
	})
}

// printTricks makes the handler print the tricks and fail.
func (h hostileDB) printTricks() {
	h.t.Helper()
	config := dbtest.Must(os.ReadFile(h.config()))(h.t)
	text := strings.Join(tricks, "\n")
	dbtest.OK(h.t, os.WriteFile(filepath.Join(h.dir, "tricks"), []byte(text), 0o600))
	config = bytes.ReplaceAll(config, []byte(`["true"]`), []byte(`[sh, -c, "cat tricks; exit 1"]`))
	dbtest.OK(h.t, os.WriteFile(h.config(), config, 0o600))
}

// add adds a job that runs first.
func (h hostileDB) add(key string) (id string) {
	h.t.Helper()
	code, out, errs := shown("enqueue", "plain", "send", "--key", key+rand.Text(), "--priority", "-1000", "--config", h.config())
	dbtest.Require(h.t, code == 0, "%v", errs)
	return strings.TrimSpace(out)
}

// insertTrick writes a text wherever a row can hold one: in several jobs, the activity and a worker's row.
func (h hostileDB) insertTrick(n int, text string) {
	h.t.Helper()
	exec := func(query string, args ...any) {
		h.t.Helper()
		dbtest.Must(h.conn.ExecContext(context.Background(), query, args...))(h.t)
	}
	valid := strings.ToValidUTF8(text, "?")
	short := valid
	if len(short) > 60 {
		short = valid[:60]
	}
	ascii := strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return -1
		}
		return r
	}, short)
	job := "INSERT INTO shop_plain (status, job_type, job_key, job_data, error, result, worker_id, attempt, timeout, priority, throttle_factor, time_windows, start_time, wake_time, output) " +
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, 60, ?, 1, 'NONE', " + h.now() + ", ?, ?)"
	worker := strconv.Itoa(n) + ascii[:min(len(ascii), 30)]
	exec("INSERT INTO shop_workers (id, host, pid, state, start_time, heartbeat, lock_until) VALUES (?, ?, 1, 'working', "+h.now()+", "+h.now()+", '2099-01-01 00:00:00.000000')",
		worker, valid)
	exec(job, "failed", short, text, valid, valid, valid, "NONE", 1, n, nil, "NONE")
	exec(job, "closed", "send", text, valid, valid, valid, "NONE", 1, n, nil, "NONE")
	exec(job, "available", short, text, valid, valid, "NONE", "NONE", 1, n, nil, "NONE")
	exec(job, "running", "send", text, valid, "NONE", "NONE", worker, 1, n, nil, valid)
	exec(job, "awaiting", short, "waits "+text, valid, "NONE", "NONE", "NONE", 1, n, "2099-01-01 00:00:00.000000", valid)
	failed := h.ids("plain", fmt.Sprintf("status = 'failed' AND priority = %d", n))[0]
	for _, state := range []string{"starting", "failed"} {
		exec("INSERT INTO shop_activity (at, kind, state, queue, worker_id, host, pid, job_id, job_type, job_key, attempt, error, output) VALUES ("+h.now()+
			", 'job', ?, 'plain', ?, ?, 1, ?, ?, ?, 1, ?, ?)", state, worker, valid, failed, short, text, valid, valid)
		exec("INSERT INTO shop_activity (at, kind, state, queue, worker_id, host, pid, job_id, job_type, job_key, attempt, error, output) VALUES ("+h.now()+
			", 'worker', ?, ?, ?, ?, 1, 0, 'NONE', 'NONE', 0, ?, 'NONE')", state, ascii[:min(len(ascii), 40)], worker, valid, valid)
	}
	if ascii != "" {
		exec("INSERT INTO shop_job_types (queue, job_type) VALUES ('limited', ?)", short)
	}
}

// Errors show what a user types quoted or cleaned, and cut.
func TestErrorsAreShownOnly(t *testing.T) {
	dbtest.Long(t, "one command after the other")
	t.Parallel()
	h := openHostile(t, "sqlite", dbtest.SQLite(t), true)
	const long = 30 << 10
	for _, text := range append(slices.Clone(tricks), strings.Repeat("x", long), strings.Repeat("\x1b\n", long/2), strings.Repeat("\u202e", long/3)) {
		for _, before := range []string{
			"", "help", "jobs", "jobs --limit", "jobs --state", "jobs --since", "jobs --type", "activity --state", "activity --queue",
			"activity --since", "monitor --at", "purge --older-than", "show plain", "why plain", "queue pause", "queue", "cancel plain",
			"retry plain", "reschedule plain 1 --at", "reschedule plain 1 --in", "dismiss plain", "enqueue plain send --at",
			"enqueue plain send --in", "enqueue plain send --window", "enqueue plain send --timeout", "enqueue plain send --on-duplicate",
			"work", "work --type", "work --run-for", "completion", "version",
		} {
			h.wantRefused(append(strings.Fields(before), text))
		}
		for _, args := range [][]string{
			{"--" + text},
			{"-" + text},
			{"jobs", "--" + text + "=1"},
			{"show", text, "1"},
			{"run", text, "1"},
			{"complete", text, "send", "k"},
			{"complete", "plain", text, "k"},
			{"complete", "plain", "send", "k", "--data", "@/" + text},
			{"enqueue", text, "send"},
			{"enqueue", "plain", text + "\x01"},
			{"enqueue", "plain", "send", "--data", "@/" + text},
			{"enqueue", "--ndjson", "/" + text},
			{"jobs", "--config", "/" + text},
		} {
			h.wantRefused(args)
		}
	}
}

func (h hostileDB) wantRefused(args []string) {
	h.t.Helper()
	code, errs := h.refused(args...)
	dbtest.Ensure(h.t, code != 0, "hipq %.200q is not refused: %q", args, errs)
}

// The same holds for a file's lines, which may be longer.
func TestLinesErrorsAreShownOnly(t *testing.T) {
	dbtest.Long(t, "one command after the other")
	t.Parallel()
	h := openHostile(t, "sqlite", dbtest.SQLite(t), true)
	file := filepath.Join(t.TempDir(), "lines")
	const long = 2 << 20
	for _, text := range append(slices.Clone(tricks), strings.Repeat("x", long), strings.Repeat("\u202e", long/3)) {
		quoted := dbtest.Must(json.Marshal(text))(t)
		for _, line := range []string{
			`{"queue": %s}`, `{%s: 1}`, `{"queue": "plain", "job_type": "send", "scheduled_run_time": %s}`,
			`{"queue": "plain", "job_type": "send", "timeout": [%s]}`, `{"queue": "plain", "job_type": "send", "timeout": %s}`,
			`{"queue": "plain", "job_type": "send", "time_windows": [%s]}`, `{"queue": "plain", "job_type": "send", "priority": %s}`, "%s",
			`{"queue": "plain", "job_type": "send` + "\x1b" + `", "job_key": %s}`,
		} {
			dbtest.OK(t, os.WriteFile(file, fmt.Appendf(nil, line, quoted), 0o600))
			if code, errs := h.refused("enqueue", "--ndjson", file); code != 1 || !strings.Contains(errs, "line 1: ") || !strings.Contains(errs, "to continue: ") {
				t.Errorf("%.200s: exit code %d, %q", fmt.Sprintf(line, quoted), code, errs)
			}
		}
	}
}

// refused runs a command that must say, in readable lines, why it does nothing.
func (h hostileDB) refused(args ...string) (code int, errs string) {
	h.t.Helper()
	if !slices.Contains(args, "--config") {
		args = append(args, "--config", h.config())
	}
	code, out, errs := shown(args...)
	dbtest.Same(h.t, cmp.Or(trick(out), trick(errs)), "", "hipq %.200q", args)
	dbtest.Ensure(h.t, len(errs) <= 10<<10, "hipq %.200q: a message of %d bytes", args, len(errs))
	for line := range strings.Lines(errs) {
		dbtest.Require(h.t, strings.HasPrefix(line, "hipq: ") || strings.HasPrefix(line, "  "), "hipq %.200q: the line %.200q", args, line)
	}
	return code, errs
}

// A hostile server's text fits one line, which can't pass for hipq's.
func TestServersTextIsShownOnly(t *testing.T) {
	for _, text := range []string{strings.Join(tricks, ""), strings.Repeat("\x1b[2J\nhipq: all is well\n", 5<<20/24)} {
		dir := t.TempDir()
		config := filepath.Join(dir, "hipq.yaml")
		yaml := fmt.Sprintf("name: shop\ndatabase: {driver: mysql, dsn: \"hipq:secret@tcp(%s)/shop\"}\nqueues: [{name: plain}]\n", rogue(t, text))
		dbtest.OK(t, os.WriteFile(config, []byte(yaml), 0o600))
		for _, args := range [][]string{{"jobs"}, {"work"}, {"work", "-v"}, {"init"}, {"status", "--json"}, {"show", "plain", "1"}} {
			code, out, errs := shown(append(args, "--config", config)...)
			dbtest.Ensure(t, code != 0 && out == "" && (strings.HasPrefix(errs, "hipq: ") || strings.HasPrefix(errs, `{"error":`)),
				"hipq %q: exit code %d, %.200q, %.200q", args, code, out, errs)
			found := trick(errs)
			dbtest.Ensure(t, found == "" && len(errs) <= 10<<10, "hipq %q: %d bytes: %s", args, len(errs), found)
		}
	}
}

// rogue starts a server that greets each client with an error of this text.
func rogue(t *testing.T, text string) (address string) {
	t.Helper()
	listener := dbtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})
	greeting := append([]byte{0xff, 0x51, 0x04, '#', 'H', 'Y', '0', '0', '0'}, text...) // 1105, an unknown error
	packet := append([]byte{byte(len(greeting)), byte(len(greeting) >> 8), byte(len(greeting) >> 16), 0}, greeting...)
	go func() {
		defer close(served)
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = client.Write(packet)
			_, _ = io.Copy(io.Discard, client) // until the client has read it
			_ = client.Close()
		}
	}()
	return listener.Addr().String()
}
