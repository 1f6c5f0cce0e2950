package handler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// Limits apply to a program and to each process that it starts. 0 means the worker's limit. Memory is rounded up to KiB, CPU
// to seconds, and FileSize to 512 bytes.
type Limits struct {
	// Memory is the address space in bytes; programs often reserve far more than they use.
	Memory int64 `key:"memory" from:"1MiB"`
	// OpenFiles is the number of open files.
	OpenFiles int `key:"open_files" from:"8"`
	// CPU is processor time. At the limit a process gets XCPU, and after 5 s more of processor time KILL.
	CPU time.Duration `key:"cpu" from:"1s" whole:"1s"`
	// FileSize is the largest file, in bytes.
	FileSize int64 `key:"file_size" from:"1KiB"`
}

// lastCPU is how much processor time a process has to end after its limit.
const lastCPU = 5 * time.Second

type limit struct {
	key    string
	shown  string // the value, for people
	letter byte
	n      int64 // in ulimit's unit; 0 means none
	unit   int64 // system units in one of ulimit's
}

// all returns the limits that are set. Memory is last, because the shell may have too little afterwards.
func (l Limits) all() []limit {
	whole := func(n, unit int64) int64 {
		return n/unit + min(n%unit, 1) // rounded up, because 0 means no limit
	}
	return []limit{
		{"open_files", fmt.Sprint(l.OpenFiles), 'n', int64(l.OpenFiles), 1},
		{"file_size", texts.Bytes(l.FileSize), 'f', whole(l.FileSize, 512), 512},
		{"cpu", l.CPU.String(), 't', whole(int64(l.CPU), int64(time.Second)), 1},
		{"memory", texts.Bytes(l.Memory), 'v', whole(l.Memory, 1<<10), 1 << 10},
	}
}

// script returns what a shell does before it becomes the program, because Go has no hook between fork and exec. The script
// contains only hipq's lines and numbers; the program comes as arguments. Empty means no shell.
func (p *Program) script() string {
	var s strings.Builder
	if p.Umask != nil {
		fmt.Fprintf(&s, "umask %04o\n", *p.Umask)
	}
	for _, l := range p.Limits.all() {
		if l.n == 0 {
			continue
		}
		options := fmt.Sprintf("-%c", l.letter)
		if l.letter == 't' {
			options = "-S -t" // the hard limit, for programs that ignore XCPU, comes below
		}
		fmt.Fprintf(&s, "ulimit %s %d || { echo 'hipq could not set limits.%s to %s: this host allows less' >&2; exit 78; }\n",
			options, l.n, l.key, l.shown)
		if l.letter == 't' {
			fmt.Fprintf(&s, "ulimit -H -t %d 2>/dev/null || :\n", l.n+int64(lastCPU/time.Second)) // unless it is already lower
		}
	}
	if s.Len() == 0 && p.Nice == 0 {
		return ""
	}
	own := slices.DeleteFunc([]string{"PWD", "OLDPWD", "SHLVL"}, func(name string) bool { // unset the shell's own variables, unless the config sets them
		return slices.ContainsFunc(p.Env, func(entry string) bool { return entry == name || strings.HasPrefix(entry, name+"=") })
	})
	return "unset " + strings.Join(append(own, "_"), " ") + "\n" + s.String() + `exec "$@"`
}
