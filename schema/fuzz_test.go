package schema

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"
)

// FuzzDSN: a DSN connects or is refused, and neither its error nor what people see of it has the password.
func FuzzDSN(f *testing.F) {
	for _, parts := range [][2]string{
		{"root", "@tcp(127.0.0.1:3306)/shop"},
		{"", "@unix(/run/mysqld.sock)/"},
		{"u", "@tcp([::1]:3306)/a?tls=true&timeout=5s"},
		{"u", "@/a?password=x"},
		{"a@b", "@tcp(x)/a?loc=a%2Fb"},
		{"u", "/x@tcp(y)/z"},
		{"u:v", ":w@(x)/a?sql_mode=''"},
		{"u", ""},
		{"u", "@tcp(a/b)/c?d=/"},
	} {
		f.Add(parts[0], parts[1])
	}
	const secret = "s3cret"
	f.Fuzz(func(t *testing.T, user, rest string) {
		dsn := user + ":" + secret + rest
		said := WithoutPassword(dsn)
		o := Options{Driver: "mysql", DSN: dsn}
		_, err := o.connector()
		if err != nil {
			said += " " + err.Error()
		}
		said += " " + o.Address()
		if utf8.ValidString(dsn) && !utf8.ValidString(said) {
			t.Errorf("%q", said)
		}
		cfg, wrong := mysql.ParseDSN(dsn) // a secret may also be a database's name
		if strings.Count(dsn, secret) == 1 && (wrong != nil || strings.Contains(cfg.Passwd, secret)) && strings.Contains(said, secret) {
			t.Errorf("%q shows the password of %q", said, dsn)
		}
	})
}
