package texts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
)

// record returns a program's output.
func record(t *testing.T, program string) string {
	t.Helper()
	text := dbtest.Must(os.ReadFile(filepath.Join("testdata", program+".printed")))(t)
	return string(text)
}

// reason returns the reason in a complete text.
func reason(text string, chose bool) string {
	last := strings.TrimSpace(text)
	return texts.Reason(text, strings.TrimSpace(last[strings.LastIndexAny(last, "\r\n")+1:]), chose)
}

// The outputs are real: testdata/record.sh ran each program there and saved its output beside it. The versions were PHP 8.2,
// Python 3.11, Ruby 3.1, Node.js 20, Java 17, Go 1.26, bash 5.2, Perl 5.36 and Mono 6.8.
func TestReason(t *testing.T) {
	tests := []struct {
		program string
		status  int
		want    string
	}{
		{"uncaught.php", 255, "RuntimeException: no route to example.org in /srv/shop/uncaught.php:4"},
		{"previous.php", 255, "RuntimeException: the order can't be stored in /srv/shop/previous.php:9 (caused by UnexpectedValueException: SQLSTATE[HY000] [2002] Connection refused in /srv/shop/previous.php:4)"},
		{"multiline.php", 255, "RuntimeException: the server said: 550 no such user (mx1) in /srv/shop/multiline.php:2"},
		{"printed.php", 75, "DomainException: no average in /srv/shop/printed.php:6 (caused by DivisionByZeroError: Division by zero in /srv/shop/printed.php:4)"},
		{"shutdown.php", 255, "Error: Call to undefined function send() in /srv/shop/shutdown.php:3 … bye"},
		{"parse.php", 255, `PHP Parse error:  syntax error, unexpected token ";" in /srv/shop/parse.php on line 2`},

		{"uncaught.py", 1, "ConnectionError: no route to example.org"},
		{"cause.py", 1, "RuntimeError: no such order (caused by KeyError: 'b')"},
		{"context.py", 1, "NameError: name 'undefined_name' is not defined (caused by json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"},
		{"multiline.py", 1, "ValidationError: 2 errors to is missing subject is too long"},
		{"group.py", 1, "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions) (caused by ConnectionError: no route to example.org)"},
		{"syntax.py", 1, "SyntaxError: invalid syntax"},
		{"exit.py", 1, "no mirror is up"},

		{"uncaught.rb", 1, "uncaught.rb:2:in `deliver': no route to example.org (ArgumentError) … sending"},
		{"cause.rb", 1, "cause.rb:8:in `rescue in store': the order can't be stored (RuntimeError) (caused by cause.rb:2:in `Integer': invalid value for Integer(): \"x\" (ArgumentError))"},
		{"multiline.rb", 1, "multiline.rb:1:in `<main>': the server said: (RuntimeError) 550 no such user"},
		{"name.rb", 1, "name.rb:2:in `total': undefined method `amuont' for #<struct amount=1> (NoMethodError) order.amuont Did you mean?  amount"},
		{"chosen.rb", 75, "no mirror is up"},

		{"uncaught.js", 1, "TypeError: no route to example.org"},
		{"cause.js", 1, "Error: the order can't be stored (caused by SyntaxError: Expected property name or '}' in JSON at position 1)"},
		{"refused.js", 1, "Error: connect ECONNREFUSED 127.0.0.1:1"},
		{"printed.js", 75, "TypeError: fetch failed (caused by Error: connect ECONNREFUSED 127.0.0.1:2)"},
		{"assert.js", 1, "AssertionError [ERR_ASSERTION]: Expected values to be strictly equal: 1 !== 2"},
		{"missing.mjs", 1, "Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/srv/shop/nowhere.js' imported from /srv/shop/missing.mjs"},
		{"rejected.js", 1, "UnhandledPromiseRejection: This error originated either by throwing inside of an async function without a catch block, or by rejecting a promise which was not handled with .catch(). The promise rejected with the reason \"no such order\"."},
		{"string.js", 1, "no such order"},

		{"Uncaught.java", 1, "java.lang.IllegalStateException: no route to example.org"},
		{"Cause.java", 1, "java.lang.RuntimeException: java.lang.IllegalStateException: the order can't be stored (caused by java.io.IOException: the server said: 550 no such user)"},
		{"Multiline.java", 1, "java.lang.Exception: the server said: 550 no such user"},

		{"panic.go", 2, "panic: no route to example.org: it is down"},
		{"nil.go", 2, "panic: runtime error: invalid memory address or nil pointer dereference [recovered, repanicked]"},
		{"deadlock.go", 2, "fatal error: all goroutines are asleep - deadlock!"},

		{"errexit.sh", 1, "cp: cannot stat 'nowhere.txt': No such file or directory"},
		{"missing.sh", 127, "missing.sh: line 3: sendmial: command not found"},
		{"unset.sh", 1, "unset.sh: line 2: TO: unbound variable"},

		{"die.pl", 255, "no route to example.org at die.pl line 2. … sending"},
		{"warn.pl", 2, "no order: No such file or directory at warn.pl line 3. … sending"},
		{"confess.pl", 255, "no route to example.org at confess.pl line 2."},
		{"module.pl", 2, "Can't locate Mail/Nowhere.pm in @INC (you may need to install the Mail::Nowhere module) (@INC contains: /etc/perl /usr/local/lib/x86_64-linux-gnu/perl/5.36.0"},
		{"compile.pl", 255, `Global symbol "$total" requires explicit package name (did you forget to declare "my $total"?) at compile.pl line 2.`},

		{"Inner.cs", 1, "System.InvalidOperationException: the order can't be stored ---> System.ArgumentException: no route to example.org"},
	}
	recorded := map[string]bool{}
	for _, tt := range tests {
		recorded[tt.program+".printed"] = true
		t.Run(tt.program, func(t *testing.T) {
			chose := tt.status == 65 || tt.status == 75
			got := reason(record(t, tt.program), chose)
			dbtest.Ensure(t, strings.HasPrefix(got, tt.want) && (len(got) <= len(tt.want) || tt.program == "module.pl"), "got\n%s\nwant\n%s", got, tt.want)
		})
	}
	outputs := dbtest.Must(filepath.Glob(filepath.Join("testdata", "*.printed")))(t)
	for _, path := range outputs {
		dbtest.Ensure(t, recorded[filepath.Base(path)], "nothing is wanted of %s", path)
	}
}

// Output before and beside a trace.
func TestReasonAmongOtherLines(t *testing.T) {
	// As in .NET's documentation; not recorded.
	const dotnet = `Unhandled exception. System.InvalidOperationException: the order can't be stored
 ---> System.ArgumentException: no route to example.org (Parameter 'to')
   at Shop.Connect(String to) in /srv/shop/Program.cs:line 5
   at Shop.Store() in /srv/shop/Program.cs:line 9
   --- End of inner exception stack trace ---
   at Shop.Store() in /srv/shop/Program.cs:line 13
   at Program.<Main>$(String[] args) in /srv/shop/Program.cs:line 2
`
	const (
		chose   = true
		crashed = false
	)
	many := strings.Repeat("one more\n", 20)
	for _, tt := range []struct {
		name, output string
		chose        bool
		want         string
	}{
		{"of .NET", dotnet, crashed, "System.InvalidOperationException: the order can't be stored (caused by System.ArgumentException: no route to example.org (Parameter 'to'))"},
		{"after another", record(t, "uncaught.js") + "tried again\n" + record(t, "Uncaught.java"), crashed, "java.lang.IllegalStateException: no route to example.org"},
		{"after a deal", many + record(t, "cause.py"), crashed, "RuntimeError: no such order (caused by KeyError: 'b')"},
		{"windows", strings.ReplaceAll(record(t, "previous.php"), "\n", "\r\n"), crashed, "RuntimeException: the order can't be stored in"},
		{"handled, long ago", record(t, "printed.js") + many + "no mirror is up\n", crashed, "no mirror is up"},
		{"handled", record(t, "confess.pl") + "no mirror is up\n", chose, "no mirror is up"},
		{"its beginning is lost", strings.Repeat("	at Recursion.down(Recursion.java:3)\n", 1000), crashed, "at Recursion.down(Recursion.java:3)"},
		{"only frames", "  at sea\n", crashed, "at sea"},
		{"a word of it", "goroutine 1 [running]:\n", crashed, "goroutine 1 [running]:"},
		{"a frame of it", "#1 {main}\n", crashed, "#1 {main}"},
		{"a list", "these failed:\n#1 ann\n#2 bob\n", crashed, "#2 bob"},
		{"a diary", "started\n  at 10:00 all was well\n  at 10:05 the mail server was down\n", crashed, "at 10:05 the mail server was down"},
		{"logged by Python", record(t, "cause.py") + "no such order\n", chose, "no such order"},
		{"perhaps of the message", record(t, "cause.py") + "in the shop\n", crashed, "RuntimeError: no such order in the shop (caused by KeyError: 'b')"},
		{"logged by Ruby", record(t, "multiline.rb") + "gone\n", chose, "gone"},
		{"a reply", record(t, "uncaught.js") + `{"error":"{\"a\":1}"}`, crashed, `{"error":"{\"a\":1}"}`},
		{"nothing", "", crashed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := reason(tt.output, tt.chose)
			dbtest.Ensure(t, strings.HasPrefix(got, tt.want) && (len(got) <= len(tt.want) || tt.name == "windows"), "got\n%s\nwant\n%s", got, tt.want)
		})
	}
}
