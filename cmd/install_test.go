package cmd_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/hipq/hipq/internal/dbtest"
)

// install runs make install and checks the installed files. HIPQ_TEST_DEB may name a built package, which gets the same check
// and has what belongs to a system.
func (d docs) install(t *testing.T) {
	for _, tool := range []string{"make", "install"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	c := exec.Command("make", "install", "DESTDIR="+dir, "PREFIX=/usr", "BINARY="+filepath.Join(d.bin, "hipq"))
	c.Dir = d.root
	succeeds(t, c)
	d.installed(t, dir)
	if deb := os.Getenv("HIPQ_TEST_DEB"); deb != "" {
		unpacked := t.TempDir()
		succeeds(t, exec.Command("dpkg-deb", "-x", deb, unpacked))
		d.installed(t, unpacked, `etc/hipq/hipq\.yaml`, `etc/cron\.d/hipq`, `usr/share/doc/hipq/copyright`, `usr/lib/systemd/system/hipq-ui\.service`)
		out := succeeds(t, d.command(t.TempDir(), "hipq", "config", "show", "--config", filepath.Join(unpacked, "etc/hipq/hipq.yaml")))
		dbtest.Ensure(t, strings.Contains(out, "/var/lib/hipq/hipq.db"), "the package's config: %s", out)
		crontab := dbtest.Must(os.ReadFile(filepath.Join(unpacked, "etc/cron.d/hipq")))(t)
		lines := regexp.MustCompile(`(?m)^(#?)[*0-9].* hipq  hipq (\w+)$`).FindAllStringSubmatch(string(crontab), -1)
		dbtest.Ensure(t, len(lines) == 3 && lines[0][1]+lines[1][1]+lines[2][1] == "###", "the package's crontab runs hipq:\n%s", crontab)
	}
}

// installed checks that all parts are installed below a folder, and that hipq and the examples work.
func (d docs) installed(t *testing.T, dir string, more ...string) {
	t.Helper()
	all := strings.Join(filesIn(t, dir), "\n")
	for _, want := range slices.Concat(more, d.pagesInMessages(t), []string{
		`usr/bin/hipq`, `usr/share/man/man1/hipq\.1(\.gz)?`, `usr/share/man/man1/hipq-work\.1(\.gz)?`,
		`usr/share/bash-completion/completions/hipq`, `usr/share/zsh/(site-functions|vendor-completions)/_hipq`,
		`usr/share/fish/vendor_completions\.d/hipq\.fish`, `usr/share/doc/hipq/hipq\.example\.yaml`,
		`usr/share/doc/hipq/docs/examples/crontab`, `usr/share/doc/hipq/docs/examples/hipq-work@\.timer`,
		`usr/share/doc/hipq/examples/handlers/exec\.php`, `usr/share/doc/hipq/README\.md`, `usr/share/doc/hipq/CHANGELOG\.md`,
	}) {
		dbtest.Ensure(t, regexp.MustCompile(`(?m)^`+want+`$`).MatchString(all), "there is no %s in:\n%s", want, all)
	}
	d.bin = filepath.Join(dir, "usr", "bin")
	succeeds(t, d.command(t.TempDir(), "hipq", "version"))
	examples := filepath.Join(dir, "usr", "share", "doc", "hipq", "docs", "examples")
	d.crontabs(t, page{name: "examples/crontab", fences: []codeBlock{{language: "crontab", mark: "cron.d", text: uncommented(t, filepath.Join(examples, "crontab"))}}})
	d.units(t, examples)
}

// pagesInMessages is where the pages that messages name are installed.
func (d docs) pagesInMessages(t *testing.T) (files []string) {
	t.Helper()
	named := regexp.MustCompile("[\"`][^\"`\n]*\\b(docs/[a-z]+/[a-z-]+)[.]md")
	for _, name := range filesIn(t, d.root) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(string(dbtest.Must(os.ReadFile(filepath.Join(d.root, name)))(t)), -1) {
			files = append(files, `usr/share/doc/hipq/`+m[1]+`\.md`)
		}
	}
	dbtest.Require(t, len(files) > 3, "messages name only %v", files)
	return files
}

// units verifies the examples' units with systemd-analyze, if it is installed, and that each gives up most rights: systemd
// rates what is left from 0 to 10.
func (d docs) units(t *testing.T, examples string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Logf("not checked: %v", err)
		return
	}
	found, err := filepath.Glob(filepath.Join(examples, "hipq-*.*"))
	dbtest.Require(t, err == nil && len(found) >= 6, "units found: %v, %v", found, err)
	dir := t.TempDir()
	var units, services []string
	for _, file := range found {
		text := dbtest.Must(os.ReadFile(file))(t)
		// systemd doesn't search this hipq's folder
		text = []byte(strings.ReplaceAll(string(text), "ExecStart=hipq ", "ExecStart="+filepath.Join(d.bin, "hipq")+" "))
		unit := filepath.Join(dir, strings.Replace(filepath.Base(file), "@", "@1", 1))
		dbtest.OK(t, os.WriteFile(unit, text, 0o600))
		units = append(units, unit)
		if strings.HasSuffix(unit, ".service") {
			services = append(services, unit)
		}
	}
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, units...)...).CombinedOutput()
	dbtest.Ensure(t, err == nil && len(out) == 0, "systemd-analyze verify: %v\n%s", err, out)
	rate := append([]string{"security", "--no-pager", "--offline=true", "--threshold=40"}, services...)
	out, err = exec.Command("systemd-analyze", rate...).CombinedOutput()
	dbtest.Ensure(t, err == nil && strings.Count(string(out), "Overall exposure level") == 4, "systemd-analyze security: %v\n%s", err, out)
}

// filesIn lists the files below a folder.
func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			path, err = filepath.Rel(dir, path)
			names = append(names, path)
		}
		return err
	})
	dbtest.OK(t, err)
	return names
}

// uncommented returns a file's lines without comments.
func uncommented(t *testing.T, file string) string {
	t.Helper()
	text := dbtest.Must(os.ReadFile(file))(t)
	return regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(text), "")
}

// The how-to pages show the examples as they are installed, or link to them.
func TestExamplesAreShown(t *testing.T) {
	for name, pageName := range map[string]string{
		"crontab": "cron.md", "hipq-work@.service": "cron.md", "hipq-work@.timer": "cron.md", "work-loop.sh": "container.md", "to-slack.sh": "alerts.md",
		"hipq-ui.service": "ui.md",
	} {
		page := dbtest.Must(os.ReadFile(filepath.Join("../docs/howto", pageName)))(t)
		text := uncommented(t, filepath.Join("../docs/examples", name))
		shown := strings.Contains(string(page), text) || strings.Contains(string(page), "](../examples/"+name+")")
		dbtest.Ensure(t, shown, "docs/howto/%s neither shows docs/examples/%s nor links to it", pageName, name)
	}
}

// The files for GitHub and goreleaser are valid YAML. Otherwise the first release or issue would show the mistake.
func TestYAML(t *testing.T) {
	for _, pattern := range []string{".goreleaser.yaml", ".github/*/*.yml"} {
		names, err := filepath.Glob(filepath.Join("..", pattern))
		dbtest.Ensure(t, err == nil && len(names) > 0, "%s: %v, %v", pattern, names, err)
		for _, name := range names {
			text := dbtest.Must(os.ReadFile(name))(t)
			err := yaml.Unmarshal(text, new(map[string]any))
			dbtest.Ensure(t, err == nil, "%s: %v", name, err)
		}
	}
}

// The release workflow signs a release's files and lists its libraries.
func TestReleaseIsSigned(t *testing.T) {
	for name, parts := range map[string][]string{
		".github/workflows/release.yml": {"id-token: write", "uses: actions/attest@", "subject-checksums: dist/checksums.txt", "run: make release"},
		".goreleaser.yaml":              {"checksum", "sboms:", "kos:", "brews:"},
	} {
		text := dbtest.Must(os.ReadFile(filepath.Join("..", name)))(t)
		for _, part := range parts {
			dbtest.Ensure(t, strings.Contains(string(text), part), "%s has no %s", name, part)
		}
	}
}

// Actions run with the workflow's rights. Each is pinned to a reviewed commit, with its version as a comment.
func TestActionsArePinned(t *testing.T) {
	workflows, err := filepath.Glob("../.github/workflows/*.yml")
	dbtest.Require(t, err == nil && len(workflows) > 0, "%v, %v", workflows, err)
	uses, pinned := regexp.MustCompile(`uses: *(.+)`), regexp.MustCompile(`^(\./.+|[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	for _, name := range workflows {
		text := dbtest.Must(os.ReadFile(name))(t)
		for _, use := range uses.FindAllStringSubmatch(string(text), -1) {
			dbtest.Ensure(t, pinned.MatchString(use[1]), "%s: %s", name, use[1])
		}
	}
}

// Without the vulnerability database, make lint passes and says so, except on GitHub. All findings make it fail.
func TestVulnerabilities(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		says   string
		status int
		ci     string
		passes bool
	}{
		{"No vulnerabilities found.", 0, "true", true},
		{"GO-2026-1 in x", 3, "", false},
		{"govulncheck: fetching vulnerabilities: no such host", 1, "", true},
		{"govulncheck: fetching vulnerabilities: no such host", 1, "true", false},
		{"govulncheck: loading packages: no such package", 1, "", false},
	} {
		fake := filepath.Join(t.TempDir(), "govulncheck")
		dbtest.OK(t, os.WriteFile(fake, fmt.Appendf(nil, "#!/bin/sh\necho '%s' >&2\nexit %d\n", c.says, c.status), 0o700))
		target := exec.Command("make", "vulnerabilities", "GOVULNCHECK="+fake)
		target.Dir, target.Env = "..", append(os.Environ(), "GITHUB_ACTIONS="+c.ci)
		out, err := target.CombinedOutput()
		if (err == nil) != c.passes || !strings.Contains(string(out), c.says) || c.passes && c.status > 0 && !strings.Contains(string(out), "nothing was checked") {
			t.Errorf("%+v: %v\n%s", c, err, out)
		}
	}
}
