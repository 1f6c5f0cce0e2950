package config

import (
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/handler"
)

var variableName = texts.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// noProgram is the remedy for a handler without a program.
const noProgram = "; write the program and its arguments as a list, such as [php, send.php]"

// retryHandler reads a retry handler, or returns the outer level's.
func (b builder) retryHandler(path string, s *retryHandlerSection, outer *Handler) *Handler {
	switch {
	case s != nil:
		if len(s.Exec) == 0 {
			b.missing(path+".exec", noProgram)
		}
		e := &handler.Exec{Program: handler.Program{Argv: s.Exec}}
		b.program(&e.Program, path+".exec", s.programSection, handler.CheckNoPlaceholder)
		return &Handler{Key: path, Exec: e}
	case outer != nil:
		b.noteAgain(path, outer.Key)
	default:
		b.note(path, nil, "")
	}
	return outer
}

func (b builder) handler(path string, s handlerSection) (h Handler) {
	kind := ""
	for _, k := range []struct {
		name  string
		given bool
	}{{"exec", len(s.Exec) > 0}, {"stream", len(s.Stream) > 0}, {"http", s.HTTP != nil}} {
		switch {
		case k.given && kind != "":
			b.refuse(path+"."+k.name, "is given, and so is %s; a handler has only one of them", kind)
		case k.given, kind == "" && b.refused[path+"."+k.name]: // that mistake is reported, and the intended kind is known
			kind = k.name
		case k.name != "http": // a section, whose keys are recorded if it exists
			b.note(path+"."+k.name, nil, "")
		}
	}
	if kind == "" {
		kind = "exec"
		b.missing(path+".exec", noProgram)
	}
	b.ofOthers(path, kind, "", reflect.ValueOf(s))
	h.Key = path
	switch kind {
	case "http":
		if h.Key = path + ".http"; s.HTTP != nil {
			h.HTTP = b.http(h.Key, s.HTTP)
		}
	case "exec":
		check := handler.CheckArgument
		if b.truth(path+".unsafe_arguments", s.Unsafe, false) {
			check = handler.CheckUnsafeArgument
		}
		h.Exec = &handler.Exec{Program: handler.Program{Argv: s.Exec}}
		b.program(&h.Exec.Program, path+".exec", s.programSection, check)
		h.Exec.DashArguments = b.truth(path+".dash_arguments", s.DashArguments, false)
	case "stream":
		t := &handler.Stream{Program: handler.Program{Argv: s.Stream}}
		b.program(&t.Program, path+".stream", s.programSection, handler.CheckNoPlaceholder)
		t.Processes = b.integer(path+".processes", s.Processes, b.slots, 1, 10000)
		t.InFlight = b.integer(path+".in_flight", s.InFlight, 1, 1, 10000)
		t.Ahead = b.integer(path+".ahead", s.Ahead, 0, 0, 10000)
		t.MaxJobs = b.integer(path+".max_jobs", s.MaxJobs, 0, 1, maxInt)
		t.MaxMemory = b.size(path+".max_memory", s.MaxMemory, 1<<20)
		t.RestartOn = texts.Map(s.RestartOn, b.absolute)
		b.noteList(path+".restart_on", t.RestartOn)
		t.StartTimeout = b.seconds(path+".start_timeout", s.StartTimeout, 0, time.Second)
		h.Stream = t
	}
	return h
}

// ofOthers refuses a section's keys for other kinds of handler, and records them as nil. of are the kinds that the
// section is for.
func (b builder) ofOthers(path, kind, of string, s reflect.Value) {
	for _, f := range fieldsOf(s.Type()) {
		at, of, value := path+"."+f.Tag.Get("mapstructure"), of+f.Tag.Get("of"), s.FieldByIndex(f.Index)
		switch {
		case of == "" || slices.Contains(strings.Fields(of), kind):
			continue
		case value.Kind() == reflect.Struct:
			b.ofOthers(at, kind, of, value)
			continue
		case !value.IsZero():
			b.refuse(at, "is for %s, but this is %s", strings.ReplaceAll(of, " ", " and "), kind)
		}
		b.note(at, nil, "")
	}
}

// program reads how a program runs, and checks its arguments, which are at the path argv, one by one. Errors show no arguments and
// no values of variables, which may be secrets.
func (b builder) program(p *handler.Program, argv string, s programSection, check func(argv []string, at int) error) {
	if len(p.Argv) > 0 && p.Argv[0] == "" {
		b.refuse(argv+"[0]", "is empty; it must be the program to run")
	}
	for i, arg := range p.Argv {
		at := fmt.Sprintf("%s[%d]", argv, i)
		if strings.ContainsRune(arg, 0) {
			b.refuse(at, "contains NUL, which is not allowed in an argument")
		} else if err := check(p.Argv, i); err != nil {
			b.refuse(at, "%w", err)
		}
	}
	b.noteList(argv, p.Argv)
	path := argv[:strings.LastIndex(argv, ".")]
	p.Dir = b.absolute(s.Dir)
	b.note(path+".dir", p.Dir, s.Dir)
	p.Env = b.environ(path+".env", s.Env)
	p.User = b.text(path+".user", s.User, "")
	p.NewPrivs = !b.truth(path+".no_new_privs", s.NoNewPrivs, true)
	limits := path + ".limits"
	p.Limits = handler.Limits{
		Memory:    b.size(limits+".memory", s.Limits.Memory, 1<<20),
		OpenFiles: b.integer(limits+".open_files", s.Limits.OpenFiles, 0, 8, maxInt),
		CPU:       b.seconds(limits+".cpu", s.Limits.CPU, 0, time.Second),
		FileSize:  b.size(limits+".file_size", s.Limits.FileSize, 1<<10),
	}
	p.Nice = b.integer(path+".nice", s.Nice, 0, -20, 19)
	p.Umask = b.umask(path+".umask", s.Umask)
	b.programs = append(b.programs, p)
}

// environ checks the program's extra variables, and records them without their given values.
func (b builder) environ(path string, env []string) []string {
	if b.words[path] {
		b.note(path, env[0], env[0])
		return []string{"*"}
	}
	seen, shown := map[string]bool{}, make([]string, len(env))
	for i, entry := range env {
		at := fmt.Sprintf("%s[%d]", path, i)
		name, value, given := strings.Cut(entry, "=")
		prefix, many := strings.CutSuffix(name, "*")
		many = many && !given
		switch {
		case many && prefix != "" && variableName().MatchString(prefix):
		case !variableName().MatchString(name):
			// not even its first word is shown, because that may be the value
			b.refuse(at, "does not begin with the name of a variable; write NAME=value, NAME for the worker's own value, or PREFIX_* for all that begin so; or env: all")
		case slices.Contains(ownVariables(), name):
			b.refuse(at, "%s is set by hipq itself for each job", name)
		case seen[name]:
			b.refuse(at, "%s is given twice", name)
		case strings.ContainsRune(value, 0):
			b.refuse(at, "the value of %s contains NUL, which is not allowed in a variable", name)
		}
		if seen[name], shown[i] = true, name; given {
			shown[i] += "=" + hidden
		}
	}
	b.noteList(path, shown)
	return env
}

// umask parses a umask as the shell does; empty means nil.
func (b builder) umask(path, text string) *fs.FileMode {
	if text == "" {
		b.note(path, nil, "")
		return nil
	}
	n, err := strconv.ParseUint(text, 8, 9)
	if err != nil {
		b.refuse(path, "%s is not a umask; write octal digits, such as 0027", shown(text))
	}
	b.note(path, fmt.Sprintf("%04o", n), text)
	return new(fs.FileMode(n))
}

// roomIn is how many jobs of a type may run at once on this host, so that none waits for a program of its stream. It is
// at most concurrency, where 0 means all the worker's slots.
func (b builder) roomIn(s *handler.Stream, concurrency int) int {
	room := s.Processes * (s.InFlight + s.Ahead)
	if s.Ahead == 0 && room >= b.slots || concurrency > 0 && room >= concurrency {
		return concurrency
	}
	return min(room, b.slots) // jobs ahead are for a lane of their own, which knows its stream's room
}
