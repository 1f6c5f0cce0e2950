package cmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/ui"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

type uiOptions struct {
	ui.Options
	listen    string
	noBrowser bool
}

func (a *app) uiCommand() *cobra.Command {
	var o uiOptions
	c := command("ui", func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("behind-proxy") && !headerName().MatchString(o.UserHeader) {
			return usagef("--behind-proxy: %q is not a header's name; write X-Remote-User or the like", o.UserHeader)
		}
		if o.Base = strings.TrimSuffix(o.Base, "/"); o.Base != "" && !basePath().MatchString(o.Base) {
			return usagef("--base-path: %q is not a path; write /hipq or the like", o.Base)
		}
		listener, err := o.socket(cmd.Context())
		if err != nil {
			return err
		}
		defer func() { _ = listener.Close() }()
		return a.open(cmd, brief, func(i *instance) error { return a.runUI(cmd, i, o, listener) })
	})
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "where: a port, an address, or unix:PATH of a socket (port 0: a free one)")
	f.BoolVar(&o.ReadOnly, "read-only", false, "change nothing")
	f.BoolVar(&o.noBrowser, "no-browser", false, "only print the address")
	f.StringVar(&o.Base, "base-path", "", "the path at which a proxy has the pages, such as /hipq")
	f.StringVar(&o.UserHeader, "behind-proxy", "", "the header in which a proxy that checks who asks gives the person's name; no token is needed then")
	return c
}

var headerName = texts.Pattern(`^[A-Za-z0-9-]+$`)

var basePath = texts.Pattern(`^(/[A-Za-z0-9._~-]+)+$`)

// connections is how many connections may be open at once, so that idle ones don't take all file descriptors.
const connections = 400

func (a *app) runUI(cmd *cobra.Command, i *instance, o uiOptions, listener net.Listener) error {
	address := url.URL{Scheme: "http", Host: listener.Addr().String(), Path: o.Base + "/"}
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok {
		o.Port = strconv.Itoa(tcp.Port)
		if !tcp.IP.IsLoopback() {
			a.warn(fmt.Errorf("a program that reaches %s can write the header %s, and so be anybody; listen on unix:PATH or 127.0.0.1 if the proxy is on this host, or let a firewall admit only the proxy", listener.Addr(), o.UserHeader))
		}
	}
	if o.UserHeader == "" {
		o.Token = rand.Text()
		address.RawQuery = url.Values{"token": {o.Token}}.Encode()
	}
	open := make(chan struct{}, connections)
	server := &http.Server{
		Handler: ui.New(cmd.Context(), a.uiInstance(cmd, i), o.Options).Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return cmd.Context() },
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				open <- struct{}{} // until there is room, the server accepts no other
			case http.StateHijacked, http.StateClosed:
				<-open
			}
		},
	}
	switch {
	case listener.Addr().Network() != "unix":
		a.out.line("hipq ui: %s", address.String())
		if !o.noBrowser && o.UserHeader == "" && a.out.isTerminal() {
			defer browse(address.String())()
		}
	case o.UserHeader == "":
		a.out.line("hipq ui listens on %s; open %s there", strings.TrimPrefix(o.listen, "unix:"), address.RequestURI())
	default:
		a.out.line("hipq ui listens on %s", strings.TrimPrefix(o.listen, "unix:"))
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-cmd.Context().Done():
	}
	return server.Close()
}

// socket listens. Without a proxy that lets people in, only this host may ask.
func (o uiOptions) socket(ctx context.Context) (net.Listener, error) {
	network, address := "unix", strings.TrimPrefix(o.listen, "unix:")
	switch {
	case address == "":
		return nil, usagef("--listen: unix: needs the path of a socket")
	case address != o.listen:
		defer process.Umask(process.Umask(0o117)) // the mode 0660: the group is the proxy's
	default:
		if network = "tcp"; !strings.Contains(address, ":") {
			address = "127.0.0.1:" + address
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, usagef("--listen: %w", err)
		}
		ip, notIP := netip.ParseAddr(host)
		if local := host == "localhost" || notIP == nil && ip.IsLoopback(); !local && o.UserHeader == "" {
			return nil, usagef("--listen %s: others than this host could ask; add --behind-proxy HEADER, or use an SSH tunnel", o.listen)
		}
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, network, address)
	if network == "unix" && errors.Is(err, syscall.EADDRINUSE) && !answers(ctx, address) { // left by a hipq ui that was killed
		if err = os.Remove(address); err == nil {
			listener, err = listen.Listen(ctx, network, address)
		}
	}
	if err != nil {
		return nil, usagef("--listen: %w", err)
	}
	return listener, nil
}

// answers reports whether somebody listens on a socket, or it is no socket.
func answers(ctx context.Context, path string) bool {
	if is, err := os.Lstat(path); err != nil || is.Mode().Type() != os.ModeSocket {
		return true
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}

// browse opens an address on the desktop, if there is one, until end. Other users may read the arguments of programs, so they
// have only the name of a file with the token.
func browse(address string) (end func()) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return func() {}
	}
	dir, err := os.UserHomeDir() // a browser in a sandbox may read no other folder, and no hidden one
	if err == nil {
		dir, err = os.MkdirTemp(dir, "hipq-ui-")
	}
	if err != nil {
		return func() {} // the address is printed
	}
	file := filepath.Join(dir, "open.html")
	page := `<!doctype html><meta http-equiv="refresh" content="0; url=` + address + `"><title>hipq</title><a href="` + address + `">Go on</a>`
	if os.WriteFile(file, []byte(page), 0o600) == nil {
		c := exec.Command(program, file) //nolint:gosec,noctx // the file is hipq's own; the browser outlives the command
		if c.Start() == nil {
			go func() { _ = c.Wait() }()
		}
	}
	return func() { _ = os.RemoveAll(dir) }
}

// uiInstance is what the pages get of the command line.
func (a *app) uiInstance(cmd *cobra.Command, i *instance) ui.Instance {
	return ui.Instance{
		Name: i.Name, DB: i.db, File: i.Database.Path, Zone: i.Location, Alert: i.Alert, Queues: i.queues,
		Health: func(ctx context.Context) (monitor.Health, error) {
			s, err := i.state(ctx, i.Alert.Enough())
			return i.health(s, i.shared), err
		},
		Command: i.shared, Example: i.firstJob(),
		Mend: func(k admin.Kind) []string {
			f := failureOf(k.Queue, admin.Filter{}, k.Failure, i.shared)
			return []string{or0(f.Retry), or0(f.Dismiss)}
		},
		Schedules: i.uiSchedules,
		PauseSchedule: func(ctx context.Context, name string, pause bool) error {
			_, err := i.knownSchedules(ctx, []string{name}, true)
			if err == nil {
				_, err = i.pauseSchedule(ctx, name, pause)
			}
			return err
		},
		RunSchedule: func(ctx context.Context, name, by string) (string, job.Added, error) {
			if i.Schedule(name) == nil {
				return "", job.Added{}, fmt.Errorf("schedule %s is not in this config", name)
			}
			return i.runSchedule(ctx, name, by, false)
		},
		Asker: i.asker,
		CheckType: func(ctx context.Context, q *queue.Queue, jobType string) error {
			types, err := i.accepted(ctx, q)
			return errors.Join(err, types.check(jobType))
		},
		Time: func(_ context.Context, text string) (time.Time, error) { return i.time(cmd, "time", text) },
	}
}

func (i *instance) uiSchedules(ctx context.Context) ([]ui.Schedule, error) {
	all, now, err := i.allScheduled(ctx)
	return texts.Map(all, func(s scheduled) ui.Schedule {
		of := ui.Schedule{
			Name: s.Name, When: s.When, Queue: s.Queue, JobType: s.JobType, Next: s.NextSlot.Time, Last: s.LastSlot.Time, Overdue: s.overdue(),
			Remark: s.remark(i, now), Paused: s.Paused, InConfig: s.InConfig, LastJob: or0(s.LastJobID),
		}
		if s.missed {
			of.Missed, of.MissedLately = s.LeftSlot.Time, s.leftLately(now)
		}
		return of
	}), err
}

// firstJob is a command that adds a job of the config's first type.
func (i *instance) firstJob() string {
	for _, q := range i.Queues {
		for _, name := range slices.Sorted(maps.Keys(q.Handlers)) {
			if name != job.AllTypes {
				return i.shared("hipq enqueue " + q.Name + " " + texts.ShellWord(name))
			}
		}
	}
	return ""
}
