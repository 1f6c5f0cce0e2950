package cmd_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// tutorial runs a tutorial's blocks in order in the page's own folder. A tutorial that uses MariaDB gets its own
// server.
func (d docs) tutorial(t *testing.T, p page) {
	if len(p.with("sh", "tutorial")) == 0 {
		return
	}
	dir, here := t.TempDir(), (*strings.Replacer)(nil)
	for i, b := range p.fences {
		if b.language != "sh" || b.mark != "tutorial" {
			continue
		}
		text := b.text
		if here == nil && strings.Contains(text, "mariadb") {
			if strings.Contains(p.name, "php") {
				dbtest.Client(t, "php")
				client := "<?php require '" + filepath.Join(d.root, "clients/php/src/Hipq.php") + "';\n" // as Composer would
				dbtest.OK(t, os.Mkdir(filepath.Join(dir, "vendor"), 0o700))
				dbtest.OK(t, os.WriteFile(filepath.Join(dir, "vendor/autoload.php"), []byte(client), 0o600))
			}
			d, here = d.withMariaDB(t, dir)
		}
		if here != nil {
			text = here.Replace(text)
		}
		p.wantOutput(t, i, succeeds(t, d.command(dir, "sh", "-eu", "-c", text), p.name, b.line))
	}
}

// withMariaDB starts a server. The client mariadb in this folder connects as its administrator. The replacer replaces
// the usual address by the server's.
func (d docs) withMariaDB(t *testing.T, dir string) (docs, *strings.Replacer) {
	t.Helper()
	client := dbtest.Must(exec.LookPath(dbtest.Client(t, "mariadb")))(t)
	server := dbtest.Must(mysql.ParseDSN(dbtest.OwnMySQL(t)))(t)
	host, port, err := net.SplitHostPort(server.Addr)
	dbtest.OK(t, err)
	account := "[client]\nhost=" + host + "\nport=" + port + "\nuser=" + server.User + "\npassword=" + server.Passwd + "\n"
	dbtest.OK(t, os.WriteFile(filepath.Join(dir, ".my.cnf"), []byte(account), 0o600))
	tools := t.TempDir()
	dbtest.OK(t, os.WriteFile(filepath.Join(tools, "mariadb"), []byte("#!/bin/sh\nexec "+client+` "$@"`+"\n"), 0o700))
	d.bin += string(os.PathListSeparator) + tools
	return d, strings.NewReplacer("127.0.0.1:3306", server.Addr, "host=127.0.0.1;", "host="+host+";port="+port+";")
}
