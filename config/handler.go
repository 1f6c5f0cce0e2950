package config

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/handler"
)

var variableName = texts.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// noProgram is the remedy for a handler without a program.
const noProgram = "; write the program and its arguments as a list, such as [php, send.php]"

// retryHandler makes a retry handler, which others may inherit.
func (b builder) retryHandler(path string, s *retryHandlerSection) *Handler {
	if s == nil || b.deciders[s] != nil {
		return b.deciders[s]
	}
	if len(s.Exec) == 0 {
		b.missing(path+".exec", noProgram)
	}
	e := &handler.Exec{}
	b.program(&e.Program, path+".exec", s.Exec, s.programSection, handler.CheckNoPlaceholder)
	b.deciders[s] = &Handler{Key: path, Exec: e}
	return b.deciders[s]
}

func (b builder) handler(path string, s handlerSection) Handler {
	switch {
	case s.HTTP != nil:
		b.http(path+".http", s.HTTP)
		return Handler{Key: path + ".http", HTTP: s.HTTP}
	case len(s.Stream) > 0:
		if s.Processes == 0 {
			s.Processes = b.Worker.Concurrency
			b.show(path+".processes", s.Processes, Default)
		}
		t := &handler.Stream{
			Processes: s.Processes, InFlight: s.InFlight, Ahead: s.Ahead, MaxJobs: s.MaxJobs, MaxMemory: s.MaxMemory, RestartOn: s.RestartOn,
			StartTimeout: s.StartTimeout,
		}
		b.program(&t.Program, path+".stream", s.Stream, s.programSection, handler.CheckNoPlaceholder)
		return Handler{Key: path, Stream: t}
	case len(s.Exec) == 0 && !b.isFaulty(path+".stream") && !b.isFaulty(path+".http"):
		b.missing(path+".exec", noProgram)
	}
	check := handler.CheckArgument
	if s.Unsafe {
		check = handler.CheckUnsafeArgument
	}
	e := &handler.Exec{DashArguments: s.DashArguments}
	b.program(&e.Program, path+".exec", s.Exec, s.programSection, check)
	return Handler{Key: path, Exec: e}
}

// program says how a program runs, and checks its arguments, which are at the path at, one by one. Errors show no arguments and
// no values of variables, which may be secrets.
func (b builder) program(p *handler.Program, at string, argv []string, s programSection, check func(argv []string, at int) error) {
	path := at[:strings.LastIndex(at, ".")]
	if len(argv) > 0 && argv[0] == "" {
		b.refuse(at+"[0]", "is empty; it must be the program to run")
	}
	for i, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			b.refuse(fmt.Sprintf("%s[%d]", at, i), "contains NUL, which is not allowed in an argument")
		} else if err := check(argv, i); err != nil {
			b.refuse(fmt.Sprintf("%s[%d]", at, i), "%w", err)
		}
	}
	p.Argv, p.Dir, p.Env, p.User, p.NewPrivs = argv, s.Dir, b.environ(path+".env", s.Env), s.User, !s.NoNewPrivs
	p.Limits, p.Nice, p.Umask = s.Limits, s.Nice, b.umask(path+".umask", s.Umask)
	b.programs = append(b.programs, p)
}

// environ checks the program's extra variables.
func (b builder) environ(path string, env []string) []string {
	if b.words[path] {
		return []string{"*"}
	}
	seen := map[string]bool{}
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
		seen[name] = true
	}
	return env
}

// umask parses a umask as the shell does; empty means nil.
func (b builder) umask(path, text string) *fs.FileMode {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 8, 9)
	if err != nil {
		b.refuse(path, "%s is not a umask; write octal digits, such as 0027", shown(text))
	}
	b.show(path, fmt.Sprintf("%04o", n), b.from[path])
	return new(fs.FileMode(n))
}

// roomIn is how many jobs of a type may run at once on this host, so that none waits for a program of its stream. It is
// at most concurrency, where 0 means all the worker's slots.
func (b builder) roomIn(s *handler.Stream, concurrency int) int {
	room := s.Processes * (s.InFlight + s.Ahead)
	if s.Ahead == 0 && room >= b.Worker.Concurrency || concurrency > 0 && room >= concurrency {
		return concurrency
	}
	return min(room, b.Worker.Concurrency) // jobs ahead are for a lane of their own, which knows its stream's room
}
