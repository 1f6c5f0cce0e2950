package doctor

import (
	"os"
	"os/user"
	"path/filepath"
	"testing"
)

// What starts hipq is found wherever it may stand for this user, and nowhere else.
func TestCrontab(t *testing.T) {
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]struct {
		own, cronD, timer string
		result            Result
	}{
		"none":              {result: Warning},
		"own":               {own: "PATH=/bin\n* * * * * hipq work --linger\n", result: OK},
		"config before it":  {own: "@reboot /usr/local/bin/hipq --config /etc/x.yaml work\n", result: OK},
		"behind another":    {own: "* * * * * cd /srv && hipq work >/dev/null\n", result: OK},
		"commented out":     {own: "# * * * * * hipq work\n", result: Warning},
		"another command":   {own: "* * * * * hipq monitor\n* * * * * hipq workers\n", result: Warning},
		"another program":   {own: "* * * * * nohipq work\n", result: Warning},
		"cron.d":            {cronD: "* * * * *  " + who.Username + "  hipq work\n", result: OK},
		"cron.d, another's": {cronD: "* * * * * nobody_else hipq work\n", result: Warning},
		"timer":             {timer: "hipq-work@1.timer", result: OK},
		"another timer":     {timer: "hipq-purge.timer", result: Warning},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(path, text string, mode os.FileMode) {
				t.Helper()
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), mode); err != nil {
					t.Fatal(err)
				}
			}
			write("crontab.txt", at.own, 0o600)
			write("bin/crontab", "#!/bin/sh\ntest -s "+dir+"/crontab.txt && exec cat "+dir+"/crontab.txt\necho no crontab for you >&2\nexit 1\n", 0o700)
			write("etc/cron.d/hipq", at.cronD, 0o600)
			if at.timer != "" {
				write("etc/systemd/system/timers.target.wants/"+at.timer, "", 0o600)
			}
			t.Setenv("PATH", filepath.Join(dir, "bin")+":/usr/bin:/bin")
			t.Setenv("XDG_CONFIG_HOME", dir)
			f := crontab("work", "* * * * *")(t.Context(), &patient{Options: Options{Etc: filepath.Join(dir, "etc")}})
			if f.Result != at.result || (f.Remedy == nil) != (f.Result == OK) {
				t.Errorf("%+v", f)
			}
		})
	}
}
