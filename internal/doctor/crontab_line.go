package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
)

// eachMinute and eachHour report whether a schedule's fields come often enough.
func eachMinute(fields []string) bool {
	return (fields[0] == "*" || fields[0] == "*/1") && eachHour(fields)
}

func eachHour(fields []string) bool {
	return !slices.ContainsFunc(fields[1:], func(f string) bool { return f != "*" && f != "*/1" })
}

// cronLine is a line by which cron starts something for this user.
type cronLine struct {
	// text is the line, prefixed by its file unless that is the user's own crontab.
	text string
	// fields are the five of its schedule.
	fields  []string
	command string            // what the line starts
	env     map[string]string // the crontab's variables above the line
}

var (
	// silenced matches redirections that discard error messages.
	silenced = texts.Pattern(`2>>?\s*/dev/null|&>>?\s*/dev/null|>\s*/dev/null\s+2>&1`)
	// elsewhere matches commands that run as another user or elsewhere, whose environment can't be seen from here.
	elsewhere = texts.Pattern(`(?:^|[\s/;&|])(?:sudo|su|runuser|doas|ssh|docker|podman|chroot|systemd-run|env\s+-i)\s`)
	folder    = texts.Pattern(`(?:^|[;&|]\s*)cd\s+(\S+)\s*(?:&&|;)`)
	named     = texts.Pattern(`\s--config[\s=]+('[^']*'|"[^"]*"|\S+)`)
)

// judge says what is wrong with a line that starts a command of the hipq at these places, and should come so often. other is the
// config of another instance, if the line is for that.
func (l cronLine) judge(p *patient, at []int, command, often string, enough bool) (f Finding, other string) {
	f = found(OK, l.text)
	before, program, after := l.command[:at[2]], l.command[at[2]:at[3]], l.command[at[4]:]
	env := l.inline(before)
	dir := env["HOME"]
	if to := folder().FindStringSubmatch(before); to != nil {
		dir = to[1]
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(env["HOME"], dir)
	}
	seen := !elsewhere().MatchString(before)
	file, places := configOf(after, env, dir)
	if named().MatchString(after) && file == "" && places != nil { // another user's may be unreadable
		file = places[0]
	}
	if file != "" && (seen || filepath.IsAbs(places[0]) && named().MatchString(after)) && !isSame(p.Config.File, file) {
		return f, file
	}
	if seen {
		if !canRun(program, env["PATH"], dir) {
			own := ownProgram()
			f.add(Wrong, fmt.Sprintf("cron doesn't find %s (its PATH is %s)", program, env["PATH"]),
				fmt.Sprintf("above the line set PATH=%s:/usr/bin:/bin, or write %s", filepath.Dir(own), own))
		}
		if file == "" && places != nil {
			f.add(Wrong, "it finds no config: "+strings.Join(places, ", "), "above the line set HIPQ_CONFIG="+p.Config.File)
		}
	}
	if !enough {
		f.add(Warning, "it runs at "+strings.TrimSuffix(strings.Join(l.fields, " "), " - - - -")+", not "+often, "start its line with "+schedules[command])
	}
	if mailTo, ok := l.env["MAILTO"]; ok && mailTo == "" {
		f.add(Warning, "MAILTO is empty, so cron mails no failure", "set MAILTO=ADDRESS above the line")
	}
	if silenced().MatchString(after) {
		f.add(Warning, "its error messages are discarded", "remove the redirection: success is silent")
	}
	return f, ""
}

func isSame(file, other string) bool {
	a, err := os.Stat(file)
	b, failed := os.Stat(other)
	if err == nil && failed == nil {
		return os.SameFile(a, b)
	}
	return filepath.Clean(file) == filepath.Clean(other)
}

// configOf is the existing config file of a line's hipq, and where hipq searches; places is nil if that can't be seen from here.
func configOf(after string, env map[string]string, dir string) (file string, places []string) {
	places = config.Places(env)
	if at := named().FindStringSubmatch(after); at != nil {
		places = []string{strings.Trim(at[1], `'"`)}
	} else if env["HIPQ_CONFIG"] != "" {
		places = []string{env["HIPQ_CONFIG"]}
	}
	if slices.ContainsFunc(append(places, dir), func(place string) bool { return !known(place) }) {
		return "", nil
	}
	for _, place := range places {
		if !filepath.IsAbs(place) {
			place = filepath.Join(dir, place)
		}
		if _, err := os.Stat(place); err == nil {
			return place, places
		}
	}
	return "", places
}

// inline is the environment of a line's hipq: cron's own, the crontab's, and assignments before the program.
func (l cronLine) inline(before string) map[string]string {
	env := map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/"}
	if who, err := user.Current(); err == nil {
		env["HOME"] = who.HomeDir
	}
	maps.Copy(env, l.env)
	for _, word := range strings.Fields(before) {
		if name, value, ok := strings.Cut(word, "="); ok && variable().MatchString(word) {
			env[name] = strings.Trim(value, `'"`)
		}
	}
	return env
}

// known reports whether a text has no special characters of the shell.
func known(text string) bool { return !strings.ContainsAny(text, "$`~*") }

// canRun reports whether a program is found from dir by path; true if that can't be seen.
func canRun(program, path, dir string) bool {
	if !known(program + path + dir) {
		return true
	}
	var files []string
	switch {
	case filepath.IsAbs(program):
		files = []string{program}
	case strings.Contains(program, "/"):
		files = []string{filepath.Join(dir, program)}
	default:
		files = texts.Map(filepath.SplitList(path), func(folder string) string { return filepath.Join(cmp.Or(folder, dir), program) })
	}
	return slices.ContainsFunc(files, isProgram)
}

func isProgram(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var variable = texts.Pattern(`^["']?([A-Za-z_][A-Za-z0-9_]*)["']?\s*=\s*(.*)$`)

// shorthands are the fields that a word stands for.
var shorthands = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *",
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@reboot": "@reboot - - - -",
}

// cronLines are the lines of a crontab that start something: neither comments nor variables. Lines of a system file
// name a user; only this user's are returned.
func cronLines(text, file, username string) (lines []cronLine) {
	env := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if set := variable().FindStringSubmatch(line); set != nil {
			env[set[1]] = unquoted(set[2])
			continue
		}
		if line == "" || !strings.ContainsAny(line[:1], "0123456789*@") {
			continue
		}
		l := cronLine{text: line, env: maps.Clone(env)}
		words, n := strings.Fields(line), 5
		if short, ok := shorthands[words[0]]; ok {
			l.fields, n = strings.Fields(short), 1
		}
		if file != "" {
			if len(words) <= n || words[n] != username {
				continue
			}
			n, l.text = n+1, file+": "+line
		}
		if len(words) <= n {
			continue
		}
		if l.fields == nil {
			l.fields = words[:5]
		}
		l.command = strings.ReplaceAll(strings.Join(words[n:], " "), `\%`, "%")
		lines = append(lines, l)
	}
	return lines
}

func unquoted(value string) string {
	value = strings.TrimSpace(value)
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}
