//go:build !windows

package handler

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"github.com/hipq/hipq/internal/files"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/texts"
)

// account is a program's user; without a credential it is this process's user.
type account struct {
	name, home string
	credential *syscall.Credential
}

func (p *Program) findAccount() error {
	if p.User == "" || p.account.Load() != nil {
		return nil
	}
	a, err := accountOf(p.User)
	if err != nil {
		return fmt.Errorf("user: %w", err)
	}
	p.account.Store(a)
	return nil
}

func accountOf(name string) (*account, error) {
	u, err := user.Lookup(name)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return nil, fmt.Errorf("there is no user %q on this host", name)
	} else if err != nil {
		return nil, err
	}
	number := func(text string) uint32 {
		n, failed := strconv.ParseUint(text, 10, 32)
		err = errors.Join(err, failed)
		return uint32(n)
	}
	c := &syscall.Credential{Uid: number(u.Uid), Gid: number(u.Gid)}
	switch {
	case err != nil:
		return nil, err
	case int(c.Uid) == os.Geteuid():
		return new(account), nil
	case os.Geteuid() != 0:
		return nil, fmt.Errorf("only root can start programs as another user, and hipq runs as user %d, not as %s", os.Geteuid(), name)
	}
	groups, err := u.GroupIds()
	c.Groups = texts.Map(groups, number)
	return &account{name: u.Username, home: u.HomeDir, credential: c}, err
}

// other returns the program's user if it differs from this process's, else nil.
func (p *Program) other() *account {
	if a := p.account.Load(); a != nil && a.credential != nil {
		return a
	}
	return nil
}

// asUser calls f with the file permissions of the program's user.
func (p *Program) asUser(f func() error) error {
	if a := p.other(); a != nil {
		return process.AsUser(a.credential, f)
	}
	return f()
}

// Foreign returns an error for people if users other than root, this one and the program's can write the program or its
// script. Missing files are left to Check.
func (p *Program) Foreign() error {
	if len(p.Argv) == 0 || p.findAccount() != nil {
		return nil
	}
	path, err := p.program()
	if err != nil {
		return nil
	}
	user, group := uint32(0), uint32(0)
	if a := p.other(); a != nil {
		user, group = a.credential.Uid, a.credential.Gid
	}
	for _, file := range append([]string{p.inDir(path)}, p.scripts()...) {
		switch err := files.CheckProgram(file, user, group); {
		case errors.Is(err, files.ErrUntrusted):
			return fmt.Errorf("%s %w", file, err)
		case err != nil:
			return fmt.Errorf("it is unknown who may write %s: %w", file, err)
		}
	}
	return nil
}
