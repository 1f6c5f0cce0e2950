package cmd_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// proxies runs the proxies of a page before hipq ui: they let in only who has a password, and say who that is. Without TLS, as a
// certificate needs a domain.
func (d docs) proxies(t *testing.T, p page) {
	for _, b := range p.fences {
		if b.mark != "proxy" {
			continue
		}
		t.Run(b.language, func(t *testing.T) {
			program := map[string]string{"nginx": "nginx", "caddyfile": "caddy"}[b.language]
			path, err := exec.LookPath(program)
			if err != nil {
				t.Skip(err)
			}
			dir := dbtest.Must(os.MkdirTemp("", "hipq"))(t) // the path of a socket must be short
			t.Cleanup(func() { dbtest.OK(t, os.RemoveAll(dir)) })
			dbtest.OK(t, os.WriteFile(filepath.Join(dir, "hipq.yaml"), []byte(shopConfig), 0o600))
			d.shell(t, p, dir, "hipq init")
			serve := func(c *exec.Cmd) {
				t.Helper()
				dbtest.OK(t, c.Start())
				t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
			}
			serve(d.command(dir, "hipq", "ui", "--listen", "unix:"+dir+"/ui.sock", "--behind-proxy", "X-Remote-User"))
			listener := dbtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
			address := listener.Addr().String()
			dbtest.OK(t, listener.Close())
			text := strings.ReplaceAll(b.text, "/run/hipq-ui", dir)
			if program == "nginx" {
				text = strings.NewReplacer("443 ssl", address, "/etc/nginx", dir).Replace(regexp.MustCompile(`(?m)^ *ssl_.*\n`).ReplaceAllString(text, ""))
				text = "daemon off; master_process off; pid nginx.pid; error_log stderr;\nevents {}\nhttp {\naccess_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;\n" + text + "}\n"
				dbtest.OK(t, os.WriteFile(filepath.Join(dir, "hipq.users"), []byte("ada:{PLAIN}secret\n"), 0o600))
			} else {
				hash := dbtest.Must(d.command(dir, path, "hash-password", "--plaintext", "secret").Output())(t)
				text = strings.NewReplacer("hipq.example.org {", "http://"+address+" {", "HASH", strings.TrimSpace(string(hash))).Replace(text)
				if version := dbtest.Must(d.command(dir, path, "version").Output())(t); regexp.MustCompile(`^v?2\.[0-7]\.`).Match(version) {
					text = strings.ReplaceAll(text, "basic_auth", "basicauth")
				}
				text = "{\nadmin off\n}\n" + text
			}
			file := filepath.Join(dir, "proxy.conf")
			dbtest.OK(t, os.WriteFile(file, []byte(text), 0o600))
			serve(d.command(dir, path, map[string][]string{"nginx": {"-p", dir, "-c", file}, "caddy": {"run", "--adapter", "caddyfile", "--config", file}}[program]...))
			ask := func(method, path, user string) (status int, text string) {
				t.Helper()
				r := dbtest.Must(http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil))(t)
				r.Header.Set("X-Remote-User", "eve")
				if user != "" {
					r.SetBasicAuth(user, "secret")
				}
				a, err := http.DefaultClient.Do(r)
				if err != nil {
					return 0, err.Error()
				}
				defer a.Body.Close()
				body := dbtest.Must(io.ReadAll(io.LimitReader(a.Body, 1<<20)))(t)
				return a.StatusCode, string(body)
			}
			for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
				status, text := ask(http.MethodGet, "/", "")
				dbtest.Require(t, time.Since(began) < time.Minute, "%s:%d: no proxy: %d %s", p.name, b.line, status, text)
				if status == http.StatusUnauthorized {
					break
				}
			}
			status, _ := ask(http.MethodGet, "/", "bob")
			dbtest.Same(t, status, http.StatusUnauthorized)
			status, text = ask(http.MethodGet, "/", "ada")
			dbtest.Ensure(t, status == http.StatusOK && strings.Contains(text, " ada</p>") && !strings.Contains(text, "eve"), "%d %.2000s", status, text)
			status, text = ask(http.MethodPost, "/queues/emails/pause?pause=yes", "ada")
			dbtest.Ensure(t, status == http.StatusOK && strings.Contains(text, ">paused<"), "%d %.2000s", status, text)
		})
	}
}

// container checks a Dockerfile without Docker: what it copies exists after make build, and its health check fails at
// CRITICAL and UNKNOWN only. TestWorkLoop runs the copied loop, which the last line starts.
func (d docs) container(t *testing.T, p page) {
	for _, b := range p.with("dockerfile", "") {
		health := ""
		for line := range strings.Lines(b.text) {
			words := strings.Fields(line)
			if words[0] == "COPY" {
				for _, source := range words[1 : len(words)-1] {
					_, missing := os.Stat(filepath.Join(d.root, source))
					if source == "hipq" {
						_, missing = os.Stat(filepath.Join(d.bin, source))
					}
					yours := strings.Contains(p.text, "`"+source+"`") // the reader's own files
					dbtest.Ensure(t, missing == nil || yours || strings.HasPrefix(source, "--"), "%s:%d: %s: %v", p.name, b.line, source, missing)
				}
			}
			if words[0] == "HEALTHCHECK" {
				_, health, _ = strings.Cut(line, " CMD ")
			}
		}
		copied := "docs/examples/work-loop.sh /usr/local/bin/\n"
		dbtest.Ensure(t, strings.Contains(b.text, copied) && strings.HasSuffix(b.text, `CMD ["sh", "/usr/local/bin/work-loop.sh"]`+"\n"),
			"%s:%d: it starts no copied loop", p.name, b.line)
		dir := t.TempDir()
		const config = "name: shop\nalert: {backlog: {warning: 0, critical: 1}}\nqueues: [{name: emails}]\n"
		dbtest.OK(t, os.WriteFile(filepath.Join(dir, "hipq.yaml"), []byte(config), 0o600))
		for _, c := range []struct {
			before, says string
			status       int
		}{
			{"hipq init", "OK", 0},
			{"hipq enqueue emails send", "WARNING", 0},
			{"hipq enqueue emails send", "CRITICAL", 1},
			{"rm hipq.yaml", "UNKNOWN", 1},
		} {
			succeeds(t, d.command(dir, "sh", "-ec", c.before))
			check := d.command(dir, "/bin/sh", "-c", health)
			out, _ := check.CombinedOutput()
			dbtest.Ensure(t, strings.HasPrefix(string(out), "HIPQ "+c.says) && check.ProcessState.ExitCode() == c.status,
				"%s:%d: exit status %d, want %d at %s\n%s", p.name, b.line, check.ProcessState.ExitCode(), c.status, c.says, out)
		}
	}
}
