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
)

// account is a user as whom a program runs; without a credential it is the one that this process is.
type account struct {
	name, home string
	credential *syscall.Credential
}

// findAccount finds the program's user, once.
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
	for _, group := range groups {
		c.Groups = append(c.Groups, number(group))
	}
	return &account{name: u.Username, home: u.HomeDir, credential: c}, err
}

// other is the user as whom the program runs, if not as this process does; nil is none.
func (p *Program) other() *account {
	if a := p.account.Load(); a != nil && a.credential != nil {
		return a
	}
	return nil
}

// asUser calls f with the rights to files that the program's user has.
func (p *Program) asUser(f func() error) error {
	if a := p.other(); a != nil {
		return process.AsUser(a.credential, f)
	}
	return f()
}

// Foreign says who else than root, this user and the program's own could have written the program, or a script that it seems to be
// given to run; nil is no other user. What isn't there is for Check. The error is meant for people.
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
			return fmt.Errorf("who may write %s is not known: %w", file, err)
		}
	}
	return nil
}
