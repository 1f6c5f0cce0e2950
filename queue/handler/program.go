package handler

import (
	"bytes"
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
)

// Program is a program that runs as a handler, and how: its process is the leader of a process group of its own, in a clean
// environment. Its fields must not change once the first job runs.
type Program struct {
	// Argv is the program and its arguments. There is no shell.
	Argv []string
	// Dir is the working directory; "" is the worker's.
	Dir string
	// Env adds to the environment: NAME=value, or NAME to pass on the worker's own.
	Env []string
	// User is the name of the user as whom it runs, with that user's groups, HOME, USER and LOGNAME; "" is the worker's own. Only
	// root can start programs as another user.
	User string
	// NewPrivs lets a program of another User gain rights by what it starts, as by sudo. On Linux it can't without (no_new_privs).
	NewPrivs bool
	// AllowForeign lets root run a program, or a script that it names, that another user than root and User could have written.
	AllowForeign bool
	// Limits are what it may use; the zero value sets none.
	Limits Limits
	// Nice is by how much the system prefers others to it, up to 19; below 0 it is preferred to others, which requires it to run
	// as root.
	Nice int
	// Umask are the rights that its new files don't have; nil is the worker's.
	Umask *fs.FileMode
	// Grace is the time from TERM to KILL.
	Grace time.Duration
	// Guard kills the programs if the worker can't; nil is none. The caller closes it.
	Guard *Guard
	// WorkerID goes to HIPQ_WORKER_ID, by which the guard knows what to kill.
	WorkerID string
	// ConfigFile goes to HIPQ_CONFIG, so that a handler may call hipq itself; "" is none.
	ConfigFile string

	once     sync.Once
	constant []string // the part of the environment that all jobs share
	path     atomic.Pointer[string]
	account  atomic.Pointer[account]
}

// program finds the program's file, once: a search through $PATH costs as much as a tenth of a start.
func (p *Program) program() (string, error) {
	name := p.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil // the kernel's business; relative to Dir
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

// apart adds to the error of a program that isn't there what may have been meant, if its name reads like a command line.
func (p *Program) apart(err error) error {
	words := strings.Fields(p.Argv[0])
	if len(words) < 2 {
		return err
	}
	return fmt.Errorf("%w; arguments stand apart: [%s]", err, strings.Join(words, ", "))
}

// Check finds out, without running it, whether the program could be started: that it is there and may be executed, and of a
// script what its first line names; and whether its user and its limits can be had. The search is that of a worker with this
// process's environment and user; on Linux it sees the files as the program's user does. The error is meant for people.
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
		if _, err := os.Stat(p.Dir + "/."); err != nil { // for which one must be let in
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
	if err = p.checkScript(path); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// executable gives the path, from here, of a file that may be executed.
func (p *Program) executable(path string) (string, error) {
	if path = p.inDir(path); !strings.Contains(path, "/") {
		path = "./" + path
	}
	_, err := exec.LookPath(path)
	if failed, ok := errors.AsType[*exec.Error](err); ok {
		err = failed.Err
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	}
	return path, err
}

// maxFirstLine is how much of a script Linux reads for its first line.
const maxFirstLine = 256

// checkScript looks for the interpreter of a script. A program that may be executed and not read is taken as it is.
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
			return errors.New("it is a text without #! in its first line, such as #!/bin/sh, so the system can't run it")
		}
		return nil
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	switch {
	case bytes.HasSuffix(line, []byte("\r")):
		return fmt.Errorf("its first line ends as on Windows (CR LF), so the system looks for the interpreter %q", strings.TrimLeft(string(line), " \t"))
	case len(words) == 0:
		return errors.New("there is no interpreter behind the #! of its first line")
	}
	if _, err := p.executable(words[0]); err != nil {
		return fmt.Errorf("its interpreter %s: %w", words[0], err)
	}
	if filepath.Base(words[0]) == "env" {
		return p.checkEnv(words[1:])
	}
	return nil
}

// checkEnv looks for the program that env(1) would start, in the PATH that the handler has. Options other than -S, and
// variables, are too much for a check.
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

// variable is one that the program finds in its environment for every job.
func (p *Program) variable(name string) (value string) {
	for _, entry := range p.constantEnvironment() {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

// isText says whether a file begins like a text, and is no program by that. One that is empty is as good as a text.
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
