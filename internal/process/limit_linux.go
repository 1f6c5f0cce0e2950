package process

import "golang.org/x/sys/unix"

// HardLimit is up to what this process, or one that it starts, may raise a limit, by the letter that ulimit has for it and in
// the system's unit, unless it MayRaise it.
func HardLimit(letter byte) (limit uint64, known bool) {
	resource, known := map[byte]int{'v': unix.RLIMIT_AS, 'n': unix.RLIMIT_NOFILE, 't': unix.RLIMIT_CPU, 'f': unix.RLIMIT_FSIZE}[letter]
	var r unix.Rlimit
	if !known || unix.Getrlimit(resource, &r) != nil || r.Max == unix.RLIM_INFINITY {
		return 0, false
	}
	return r.Max, true
}
