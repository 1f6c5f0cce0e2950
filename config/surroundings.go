package config

import (
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/hipq/hipq/queue/handler"
)

// surroundings reads as whom a program runs, and within what.
func (b builder) surroundings(path string, s handlerSection, h *Handler) {
	l := path + ".limits"
	h.NewPrivs = !b.unnoted(path+".no_new_privs", s.NoNewPrivs, true)
	h.Limits = handler.Limits{
		Memory:    b.size(l+".memory", s.Limits.Memory, 1<<20),
		OpenFiles: b.whole(l+".open_files", s.Limits.OpenFiles, 0, 8, maxInt),
		CPU:       b.span(l+".cpu", s.Limits.CPU, 0, time.Second),
		FileSize:  b.size(l+".file_size", s.Limits.FileSize, 1<<10),
	}
	if h.Limits.CPU%time.Second != 0 && h.Limits.CPU >= time.Second {
		b.refuse(l+".cpu", "%s is not in whole seconds", shown(s.Limits.CPU))
	}
	h.Nice = b.whole(path+".nice", s.Nice, 0, -20, 19)
	h.Umask = b.umask(path+".umask", s.Umask)
}

// umask reads the rights that new files don't have, as the shell's umask takes them; nil is none.
func (b builder) umask(path, text string) *fs.FileMode {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 8, 9)
	if err != nil {
		b.refuse(path, "%s is no umask; write octal digits, such as 0027", shown(text))
	}
	return new(fs.FileMode(n))
}

// formatUmask writes an umask as it is usual.
func formatUmask(umask *fs.FileMode) string {
	if umask == nil {
		return ""
	}
	return fmt.Sprintf("%04o", *umask)
}
