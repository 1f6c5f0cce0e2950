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

// ErrUntrusted means that somebody else could have written a file.
var ErrUntrusted = errors.New("is not trusted")

// maxLinks is how many links may lead to a file, as with Linux.
const maxLinks = 40

// ReadTrusted reads a file that says what hipq does: none that somebody else could have written, for whoever writes it may
// run any program as the user that hipq runs as. shared says that others may read it: more than the group that root gave its file to.
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

// CheckDatabase refuses a SQLite file, which needn't be there yet, that others own or may write, together with its folder and
// those files beside it that SQLite takes for parts of it. The database's owner is trusted with it, and its group if that may write it.
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
		if info == nil && absent(err) { // nor is its folder there
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
			err = fmt.Errorf("%w: %s is no regular file; move it away", ErrUntrusted, path+suffix)
		case err == nil:
			err = t.ours(path+suffix, beside)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckFolder refuses a folder, which needn't be there yet, if others own or may write it, or one of those in which it lies, or have
// a link on the way: what is written there could come to lie anywhere.
func CheckFolder(path string) error { return trusted{}.above(path) }

// CheckProgram refuses a program, or a script, that others own or may write, or a folder in which it lies. It needn't be there. It runs
// as a user of this group, who is trusted with it; 0 is this process's. A folder's group may put others in: /usr/local/bin is that of
// staff on some systems.
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

// trusted are those who may write a file: root, this user, of a database its owner and its group, and of a program the user that it
// runs as.
type trusted struct {
	program bool
	// database says that a folder of all is none for it, though each can only take away what is his own there: a file that is laid
	// beside a database is a part of it.
	database bool
	// user and group are trusted besides; 0, which is root, is nobody else.
	user, group uint32
	remedy      string // for what is another's; empty is that for most files
}

// lead refuses a file that others own or may write, or that lies in a folder where they could put another in its place. The
// same holds for each of the links by which its name leads to it. It gives the last of the names; info is nil if there is no file.
func (t trusted) lead(path string, info fs.FileInfo) (string, error) {
	if info != nil {
		if err := t.ours(path, info); err != nil {
			return path, err
		}
	}
	for range maxLinks {
		// The kernel takes .. from where the links before it lead to, so these are followed before names are joined.
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

// above refuses a folder, which needn't be there, and those in which it lies, as CheckFolder does.
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
