package handler

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/files"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/texts"
)

const (
	// DefaultGrace is the time between TERM and KILL of a Program without Grace.
	DefaultGrace = 10 * time.Second
	// NoGrace is a Grace that kills at once.
	NoGrace time.Duration = -1
)

// Program is a program that runs as a handler, in its own process group and a clean environment. Don't change its fields
// after the first job.
type Program struct {
	// Argv is the program and its arguments, without a shell.
	Argv []string
	// Dir is the working directory; "" means the worker's.
	Dir string
	// Env adds variables: NAME=value, NAME to pass the worker's value on, or PREFIX* for all that begin so, but not HIPQ_ variables
	// unless the prefix does.
	Env []string
	// User runs the program as this user, with its groups, HOME, USER and LOGNAME; "" means the worker's user. Only root can
	// set another User.
	User string
	// NewPrivs lets another User's program gain privileges, as by sudo. Linux prevents that otherwise (no_new_privs).
	NewPrivs bool
	// AllowForeign lets root run programs and scripts that users other than root and User can write.
	AllowForeign bool
	// Limits are resource limits; the zero value sets none.
	Limits Limits
	// Nice is the niceness, up to 19. Values below 0 need root.
	Nice int
	// Umask applies to the program's new files; nil means the worker's.
	Umask *fs.FileMode
	// Grace is the time between TERM and KILL; 0 means DefaultGrace, NoGrace none.
	Grace time.Duration
	// Guard kills the programs if the worker can't; nil means no guard. Its creator closes it.
	Guard *Guard
	// WorkerID becomes HIPQ_WORKER_ID, by which the guard finds processes.
	WorkerID string
	// ConfigFile becomes HIPQ_CONFIG, so that handlers can call hipq; "" means unset.
	ConfigFile string

	once     sync.Once
	constant []string // the environment that all jobs share
	path     atomic.Pointer[string]
	account  atomic.Pointer[account]
}

func (p *Program) grace() time.Duration { return max(0, cmp.Or(p.Grace, DefaultGrace)) }

// program finds the program's file once, because a search through $PATH costs up to a tenth of a start.
func (p *Program) program() (string, error) {
	name := p.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil // left to the kernel, relative to Dir
	}
	if path := p.path.Load(); path != nil {
		return *path, nil
	}
	var path string
	err := p.asUser(func() (err error) {
		path, err = exec.LookPath(name)
		return err
	})
	if err != nil {
		return "", p.apart(errors.Unwrap(err))
	}
	p.path.Store(&path)
	return path, nil
}

// apart adds a hint to a missing program's error if its name looks like a command line.
func (p *Program) apart(err error) error {
	words := strings.Fields(p.Argv[0])
	if len(words) < 2 {
		return err
	}
	return fmt.Errorf("%w; write arguments separately: [%s]", err, strings.Join(words, ", "))
}

// Check returns an error for people if the program couldn't be started: its file, a script's interpreter, its user or limits.
// It doesn't run the program. It searches with this process's environment and user; on Linux it sees files as the program's
// user.
func (p *Program) Check() error {
	if len(p.Argv) == 0 {
		return errors.New("it has no program")
	}
	if err := p.CheckSurroundings(); err != nil {
		return err
	}
	err := p.asUser(p.checkFiles)
	if a := p.other(); err != nil && a != nil && errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w for user %s", err, a.name)
	}
	return err
}

func (p *Program) checkFiles() error {
	if p.Dir != "" {
		if info, err := os.Stat(p.Dir); err != nil {
			return fmt.Errorf("its directory %s: %w", p.Dir, errors.Unwrap(err))
		} else if !info.IsDir() {
			return fmt.Errorf("its directory %s is a file", p.Dir)
		}
		if _, err := os.Stat(p.Dir + "/."); err != nil { // needs search permission
			return fmt.Errorf("its directory %s: %w", p.Dir, errors.Unwrap(err))
		}
	}
	path, err := p.program()
	if err != nil {
		return fmt.Errorf("%s: %w", p.Argv[0], err)
	}
	if path, err = p.executable(path); err != nil {
		return fmt.Errorf("%s: %w", path, p.apart(err))
	}
	return texts.Wrap(p.checkScript(path), "%s", path)
}

// executable returns an executable file's path, relative to the current directory.
func (p *Program) executable(path string) (string, error) {
	if path = p.inDir(path); !strings.Contains(path, "/") {
		path = "./" + path
	}
	_, err := exec.LookPath(path)
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause // without the path
	}
	return path, err
}

// maxFirstLine is how much of a script's first line Linux reads.
const maxFirstLine = 256

// checkScript checks a script's interpreter. A program that is executable but unreadable passes.
func (p *Program) checkScript(path string) error {
	f, _, err := files.Open(path)
	if errors.Is(err, files.ErrIrregular) {
		return files.ErrIrregular
	}
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	begin, err := io.ReadAll(io.LimitReader(f, maxFirstLine))
	if err != nil {
		return nil
	}
	line, script := bytes.CutPrefix(begin, []byte("#!"))
	if !script {
		if isText(begin) {
			return errors.New("it is a text file without a #! line, such as #!/bin/sh, so the system can't run it")
		}
		return nil
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	switch {
	case bytes.HasSuffix(line, []byte("\r")):
		return fmt.Errorf("its first line ends with CR LF, as on Windows, so the system looks for the interpreter %q", strings.TrimLeft(string(line), " \t"))
	case len(words) == 0:
		return errors.New("there is no interpreter after the #! in its first line")
	}
	if _, err := p.executable(words[0]); err != nil {
		return fmt.Errorf("its interpreter %s: %w", words[0], err)
	}
	if filepath.Base(words[0]) == "env" {
		return p.checkEnv(words[1:])
	}
	return nil
}

// checkEnv checks the program that env(1) would start, with the handler's PATH. It gives up on variables and options other
// than -S.
func (p *Program) checkEnv(args []string) error {
	if len(args) > 0 && args[0] == "-S" {
		args = args[1:]
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || strings.ContainsAny(args[0], "=/") {
		return nil
	}
	for _, folder := range filepath.SplitList(p.variable("PATH")) {
		if _, err := p.executable(filepath.Join(folder, args[0])); err == nil {
			return nil
		}
	}
	return fmt.Errorf("its interpreter %s: %w", args[0], exec.ErrNotFound)
}

// variable returns a variable that every job's environment has.
func (p *Program) variable(name string) string {
	for _, entry := range p.constantEnvironment() {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// isText says whether a file begins like text, and so is no program. An empty file counts as text.
func isText(begin []byte) bool {
	for len(begin) > 0 {
		r, size := utf8.DecodeRune(begin)
		if r == utf8.RuneError && size == 1 && utf8.FullRune(begin) || r < ' ' && !strings.ContainsRune("\t\n\r\f", r) {
			return false
		}
		begin = begin[size:]
	}
	return true
}

// Guard is a process beside the worker that kills the worker's programs if the worker was killed, crashed or stopped. It does
// so before the worker's lock ends and other workers may take the jobs. It starts with the first program and is replaced if
// it dies; no program starts without it. Use one Guard for all of a worker's programs, NewGuard's id as the worker's ID, and
// Extend as Renewed. When the worker has ended, Close kills running programs and what they left, and ends the guard; its error
// names processes that couldn't be killed.
//
// A process that is only a worker calls Alone once, before the first program starts. On Linux, Close then finds all processes
// that programs leave behind: all later children of this process count as such. And Linux kills this process if it is still
// starting a program when its lock is about to end. A process that was stopped in that moment would otherwise start a job of
// another worker.
//
// A nil Guard guards nothing. A Guard is safe for concurrent use. Its other methods are for this package.
type Guard = guard.Guard

// NewGuard returns a guard without starting it. argv is a command that calls ServeGuard with its further arguments, usually
// this program with a special argument. Programs get TERM and, after at most grace, which is as in Program, KILL.
func NewGuard(argv []string, workerID string, grace time.Duration) *Guard {
	return guard.New(argv, workerID, (&Program{Grace: grace}).grace())
}

// ServeGuard is the whole life of the guard process. in is its standard input, and args are its last arguments, from the
// worker. It ignores the usual termination signals.
func ServeGuard(in *os.File, args []string) error { return guard.Serve(in, args) }
