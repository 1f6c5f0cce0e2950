package doctor

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hipq/hipq/config"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestCrontab: hipq's start is found wherever it may be configured for this user, and nowhere else.
func TestCrontab(t *testing.T) {
	who := dbtest.Must(user.Current())(t)
	const cron = "PATH={dir}/bin:/bin\nHIPQ_CONFIG={dir}/hipq.yaml\n"
	for name, at := range map[string]struct {
		own, cronD, timer string
		result            Result
		found, remedy     string
	}{
		"none":              {result: Warning, found: "no line in a crontab starts hipq work with this config", remedy: "crontab -e: * * * * * /"},
		"own":               {own: cron + "* * * * * hipq work --linger\n", result: OK},
		"config before it":  {own: "* * * * * {dir}/bin/hipq --config {dir}/hipq.yaml work\n", result: OK},
		"config behind it":  {own: "*/1 * * * * {dir}/bin/hipq work --config={dir}/hipq.yaml\n", result: OK},
		"in its folder":     {own: "PATH={dir}/bin\n* * * * * cd {dir} && hipq work >/dev/null\n", result: OK},
		"in the home":       {own: "PATH={dir}/bin\nHOME={dir}\n* * * * * hipq work\n", result: OK},
		"set before it":     {own: "* * * * * PATH={dir}/bin HIPQ_CONFIG='{dir}/hipq.yaml' nice hipq work\n", result: OK},
		"as somebody else":  {own: "* * * * * sudo -u hipq hipq work\n", result: OK},
		"a shell's":         {own: "* * * * * PATH=$PATH:/opt HIPQ_CONFIG=$HOME/x.yaml hipq work\n", result: OK},
		"the second is":     {own: "* * * * * hipq work\n" + cron + "* * * * * hipq work\n", result: OK},
		"commented out":     {own: "# * * * * * hipq work\n", result: Warning},
		"another command":   {own: "* * * * * hipq monitor\n* * * * * hipq workers\n", result: Warning},
		"another program":   {own: "* * * * * nohipq work\n", result: Warning},
		"cron.d":            {cronD: cron + "* * * * *  " + who.Username + "  hipq work\n", result: OK},
		"cron.d, another's": {cronD: cron + "* * * * * nobody_else hipq work\n", result: Warning},
		"timer":             {timer: "hipq-work@1.timer", result: OK},
		"another timer":     {timer: "hipq-purge.timer", result: Warning},
		"timer besides":     {own: "0 3 * * * hipq work\n", timer: "hipq-work@1.timer", result: OK},
		"no PATH": {
			own: "HIPQ_CONFIG={dir}/hipq.yaml\n* * * * * hipq work\n", result: Wrong,
			found: "cron doesn't find hipq (its PATH is /usr/bin:/bin)", remedy: "above the line set PATH=",
		},
		"no program": {own: cron + "* * * * * /opt/nosuch/hipq work\n", result: Wrong, found: "cron doesn't find /opt/nosuch/hipq", remedy: "or write /"},
		"no config":  {own: "PATH={dir}/bin\nHOME=/nosuch\n* * * * * hipq work\n", result: Wrong, found: "it finds no config: ", remedy: "HIPQ_CONFIG={dir}/hipq.yaml"},
		"missing one": {
			own: cron + "*/5 * * * * hipq work --config /etc/nosuch.yaml\n", result: Warning,
			found: "no line in a crontab starts hipq work with this config; another user or host may; this user's lines are for /etc/nosuch.yaml",
		},
		"as another, for another": {own: "* * * * * sudo -u shop hipq work --config /srv/shop/hipq.yaml\n", result: Warning, found: "are for /srv/shop/hipq.yaml"},
		"as another, for this":    {own: "* * * * * sudo -u shop hipq work --config {dir}/hipq.yaml\n", result: OK},
		"another instance's": {
			own: "MAILTO=\n" + cron + "0 3 * * * hipq work --config {dir}/other.yaml\n", result: Warning,
			found: "another user or host may; this user's lines are for {dir}/other.yaml", remedy: " work --config {dir}/hipq.yaml",
		},
		"both":           {own: cron + "0 3 * * * hipq work --config {dir}/other.yaml\n* * * * * hipq work\n", result: OK},
		"once a day":     {own: cron + "0 3 * * * hipq work\n", result: Warning, found: "it runs at 0 3 * * *, not each minute", remedy: "start its line with * * * * *"},
		"at hours":       {own: cron + "* 9-17 * * * hipq work\n", result: Warning, found: "not each minute", remedy: "start its line with"},
		"at the start":   {own: cron + "@reboot hipq work\n", result: Warning, found: "runs at @reboot, not each minute", remedy: "start its line with"},
		"thrown away":    {own: cron + "* * * * * hipq work >/dev/null 2>&1\n", result: Warning, found: "are discarded", remedy: "remove the redirection"},
		"mailed to none": {own: "MAILTO=\"\"\n" + cron + "* * * * * hipq work\n", result: Warning, found: "MAILTO is empty", remedy: "set MAILTO="},
		"all of that":    {own: "MAILTO=\n0 3 * * * hipq work 2> /dev/null\n", result: Wrong, found: "MAILTO is empty, so cron mails no failure; its error", remedy: "; remove the"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(path, text string, mode os.FileMode) {
				t.Helper()
				path = filepath.Join(dir, path)
				dbtest.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
				dbtest.OK(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "{dir}", dir)), mode))
			}
			write("crontab.txt", at.own, 0o600)
			write("bin/crontab", "#!/bin/sh\ntest -s {dir}/crontab.txt && exec cat {dir}/crontab.txt\necho no crontab for you >&2\nexit 1\n", 0o700)
			write("bin/hipq", "", 0o700)
			write("hipq.yaml", "", 0o600)
			write("other.yaml", "", 0o600)
			write("etc/cron.d/hipq", at.cronD, 0o600)
			if at.timer != "" {
				write("etc/systemd/system/timers.target.wants/"+at.timer, "", 0o600)
			}
			t.Setenv("PATH", filepath.Join(dir, "bin")+":/usr/bin:/bin")
			t.Setenv("XDG_CONFIG_HOME", dir)
			p := &patient{Options: Options{Etc: filepath.Join(dir, "etc"), Config: &config.Config{File: filepath.Join(dir, "hipq.yaml")}}}
			f := crontab("work", "each minute", eachMinute)(t.Context(), p)
			remedy := ""
			if f.Remedy != nil {
				remedy = *f.Remedy
			}
			if f.Result != at.result || (remedy == "") != (f.Result == OK) || !strings.Contains(f.Found, strings.ReplaceAll(at.found, "{dir}", dir)) ||
				!strings.Contains(remedy, strings.ReplaceAll(at.remedy, "{dir}", dir)) {
				t.Errorf("%+v, remedy %q", f, remedy)
			}
		})
	}
}

// TestCrontabMail: without a mail program, cron's output is lost.
func TestCrontabMail(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"crontab", "sendmail"} {
		dbtest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '* * * * * hipq work'\n"), 0o700))
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	for sendmail, want := range map[string]Result{"sendmail": OK, "nosuch": Warning} {
		p := &patient{Options: Options{Etc: dir, Sendmail: []string{"/nosuch/sendmail", filepath.Join(dir, sendmail)}}}
		f := lookAtMail(t.Context(), p)
		dbtest.Ensure(t, f.Result == want && (f.Remedy == nil) == (want == OK), "%s: %+v", sendmail, f)
	}
}

// TestOften: whether schedules come often enough.
func TestOften(t *testing.T) {
	for line, want := range map[string][2]bool{
		"* * * * *": {true, true}, "*/1 * * * *": {true, true}, "5,20 * * * *": {false, true}, "* 3 * * *": {false, false},
		"* * * * 1-5": {false, false}, "@hourly": {false, true}, "@daily": {false, false}, "@reboot": {false, false},
	} {
		l := cronLines(line+" hipq work", "", "")
		dbtest.Ensure(t, len(l) == 1 && eachMinute(l[0].fields) == want[0] && eachHour(l[0].fields) == want[1] && l[0].command == "hipq work", "%s: %+v", line, l)
	}
}

// TestCrontabLineToPaste: a suggested crontab line can be pasted: blanks don't split the file's name, and a % doesn't end the line.
func TestCrontabLineToPaste(t *testing.T) {
	p := &patient{Options: Options{Config: &config.Config{File: "/etc/sp ace%d/hipq.yaml"}}}
	line := p.cronLine("work")
	dbtest.Ensure(t, strings.HasSuffix(line, ` work --config '/etc/sp ace\%d/hipq.yaml'`), "%v", line)

	// doctor recognizes it when it is in the crontab
	file := filepath.Join(t.TempDir(), "sp ace%d", "hipq.yaml")
	dbtest.OK(t, os.Mkdir(filepath.Dir(file), 0o700))
	dbtest.OK(t, os.WriteFile(file, nil, 0o600))
	p.Config.File = file
	for _, l := range cronLines(strings.TrimPrefix(p.cronLine("work"), "crontab -e: "), "", "") {
		got, _ := configOf(l.command, map[string]string{}, "/")
		dbtest.Ensure(t, got == file, "the config of %s is %s", l.command, got)
	}
}
