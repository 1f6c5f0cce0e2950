package files

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ErrUntrusted means that another user could have written a file.
var ErrUntrusted = errors.New("is not trusted")

// maxLinks bounds the links that lead to a file, as on Linux.
const maxLinks = 40

// ReadTrusted reads a file that controls hipq. It refuses a file that another user could have written, because its author can
// run any program as hipq's user. shared says that more users can read it than the group that root gave it to.
func ReadTrusted(path string) (data []byte, shared bool, err error) {
	data, info, err := Read(path)
	if err == nil {
		_, err = trusted{}.lead(path, info)
	}
	if err != nil {
		return nil, false, err
	}
	owner, _ := owners(info)
	return data, info.Mode()&0o004 != 0 || info.Mode()&0o040 != 0 && owner != 0, nil
}

// CheckDatabase refuses a SQLite file that others own or may write, with its folder and the files beside it that SQLite takes
// for parts of it. The file may be missing. The database's owner is trusted, and so is its group if that may write it.
func CheckDatabase(path string) error {
	info, err := os.Stat(path)
	if err != nil && !absent(err) {
		return err
	}
	t := trusted{database: true}
	if info != nil {
		t.user, t.group = owners(info)
		if info.Mode()&0o020 == 0 {
			t.group = 0
		}
	}
	if path, err = t.lead(path, info); err != nil {
		if info == nil && absent(err) { // its folder is missing too
			return nil
		}
		return err
	}
	t.remedy = "SQLite would take it for a part of the database, so move it away"
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		beside, err := os.Lstat(path + suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && !beside.Mode().IsRegular():
			err = fmt.Errorf("%w: %s is not a regular file; move it away", ErrUntrusted, path+suffix)
		case err == nil:
			err = t.ours(path+suffix, beside)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckFolder refuses a folder, which may be missing, if others own or may write it, one of its parents, or a link on the
// way. They could redirect what is written there.
func CheckFolder(path string) error { return trusted{}.above(path) }

// CheckProgram refuses a program or script, which may be missing, if others own or may write it or one of its folders. It
// trusts the user and group that the program runs as; 0 stands for this process's. A folder's group may add files: on some
// systems staff may write to /usr/local/bin.
func CheckProgram(path string, user, group uint32) error {
	if here, err := os.Getwd(); err == nil && !filepath.IsAbs(path) {
		path = here + "/" + path
	}
	info, err := os.Stat(path)
	switch {
	case absent(err):
		return nil
	case err == nil:
		_, err = trusted{program: true, user: user, group: group}.lead(path, info)
	}
	return err
}

func absent(err error) bool {
	return slices.ContainsFunc([]error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.EINVAL},
		func(e error) bool { return errors.Is(err, e) }) // the last is a zero byte
}

// trusted are the users that may write a file: root, this user, a database's owner and group, and the user that a program
// runs as.
type trusted struct {
	program bool
	// database says that a sticky folder for everyone isn't safe. Each user can remove only their own files there, but a file
	// beside a database becomes part of it.
	database bool
	// user and group are trusted too; 0, which is root, adds none.
	user, group uint32
	remedy      string // for files of other users; empty means the usual remedy
}

// lead refuses a file that others own or may write, or could replace in its folder. The same holds for each link that its
// name leads through. It returns the last name; info is nil if there is no file.
func (t trusted) lead(path string, info fs.FileInfo) (string, error) {
	if info != nil {
		if err := t.ours(path, info); err != nil {
			return path, err
		}
	}
	for range maxLinks {
		// The kernel resolves .. after following the links before it, so follow these before joining names.
		named, name := filepath.Split(path)
		folder, err := filepath.EvalSymlinks(cmp.Or(named, "."))
		if err != nil {
			return path, err
		}
		path = filepath.Join(folder, name)
		info, err := os.Stat(folder)
		if err != nil {
			return path, err
		}
		if err := t.ours("its folder "+folder, info); err != nil {
			return path, err
		}
		if t.program {
			if err := cmp.Or(t.above(named), t.above(folder)); err != nil {
				return path, err
			}
		}
		link, err := os.Lstat(path)
		if t.database && errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil || link.Mode()&fs.ModeSymlink == 0 {
			return path, err
		}
		if err := t.ours("the link "+path, link); err != nil {
			return path, err
		}
		target, err := os.Readlink(path)
		if err != nil {
			return path, err
		}
		if path = target; !filepath.IsAbs(target) {
			path = folder + string(filepath.Separator) + target
		}
	}
	return path, &fs.PathError{Op: "read", Path: path, Err: syscall.ELOOP}
}

// above refuses a folder, which may be missing, and its parents, as CheckFolder does.
func (t trusted) above(path string) error {
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
			info, err := look(at)
			if err == nil {
				err = t.ours(at, info)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
