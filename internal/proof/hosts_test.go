//go:build linux && amd64

package proof

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/internal/dbtest"
)

func init() {
	kinds = append(kinds, kind{
		name: "hosts", title: "Three hosts beside that of the database, each with its own network, name and process ids: a link cut for 1 s to 3 lock times, " +
			"in one direction only, slow or lossy; a host that stops and resumes, or is gone without closing its connections; two hosts with one name; a clock that is an hour wrong",
		must: "lost, doubled, overlaps, over a limit, over a rate; jobs that a host without a lock still has; hosts that stand still while another is cut off", faults: 54, beside: 2,
		turns: []engineTurns{{"mariadb", 2}, {"mysql", 1}}, round: hosts,
	})
}

// network is a round on several hosts. The test itself is on none of them, and reaches the database by its socket.
type network struct {
	*round
	rng *rand.Rand
	// socket is that of hipq ui.
	socket string

	mu sync.Mutex
	// all are the hosts; the first is that of the server.
	all []*host
	// fate decides about packets, and pick which of two idle hosts gets a command.
	fate, pick *rand.Rand
	// longest is how long a job stayed with a worker that had no lock any more, and oldest how long a transaction was open.
	longest, oldest time.Duration
}

// host has a name, an address and processes of its own, in namespaces whose first process ends with the test.
type host struct {
	name, address string
	// first is a descriptor of its first process, and ids its namespace of process ids. born are its processes from the start.
	first int
	ids   string
	born  []int
	// tun has the packets of its link.
	tun *os.File
	// clock is nil for the machine's.
	clock *tracedClock
	// to and from are the two directions of its link.
	to, from lane
	// runs counts the running commands, first those that aren't hipq work.
	runs [2]int
	// starting is held while a command starts. off says that none can.
	starting sync.RWMutex
	off      bool
	// halts are the times in which its processes were stopped, or killed at their beginning.
	halts []span
}

// lane is one direction of a link. If it loses all packets, it is cut.
type lane struct {
	late  time.Duration
	loses float64
}

// birth makes the first process of a host. Process ids begin at a distance, so that those of two hosts hardly meet in the
// table of workers. The server notices only after hours that a client is gone; keepalive makes it seconds.
const birth = `mount -t proc proc /proc
echo "$1" >/proc/sys/kernel/hostname
echo "$3" >/proc/sys/kernel/ns_last_pid
if [ "$4" ]; then cd /proc/sys/net/ipv4 && echo 4 >tcp_keepalive_time && echo 1 >tcp_keepalive_intvl && echo 3 >tcp_keepalive_probes; fi
ip link set lo up
ip tuntap add wire mode tun
ip address add "$2/24" dev wire
ip link set wire up
cat <&3 &
echo born
wait`

// add makes a host. Its link is a TUN device whose packets the test carries, because not every kernel has netem.
func (n *network) add(name string, keepalive bool) *host {
	number := len(n.all) + 1
	h := &host{name: fmt.Sprintf("%s (%d)", name, number), address: fmt.Sprintf("10.83.0.%d", number)}
	n.all = append(n.all, h)
	alive, hold, err := os.Pipe()
	dbtest.OK(n.t, err)
	defer alive.Close()
	var said bytes.Buffer
	c := exec.Command("sh", "-ec", birth, "sh", name, h.address, fmt.Sprint(7000*number), when(keepalive, "yes", ""))
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS}
	c.ExtraFiles, c.Stderr = []*os.File{alive}, &said
	out := dbtest.Must(c.StdoutPipe())(n.t)
	if err = c.Start(); err == nil {
		n.t.Cleanup(func() {
			_ = hold.Close()
			_ = c.Wait() // all that is left on the host dies with it, and its network goes with the last
		})
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	dbtest.Require(n.t, err == nil, "no hosts can be made here: it needs root, namespaces, ip and /dev/net/tun: %v %s", err, &said)
	h.first = dbtest.Must(unix.PidfdOpen(c.Process.Pid, 0))(n.t)
	n.t.Cleanup(func() { _ = unix.Close(h.first) })
	h.ids = dbtest.Must(os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", c.Process.Pid)))(n.t)
	h.born = h.processes()
	link := dbtest.Must(unix.NewIfreq("wire"))(n.t)
	link.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	dbtest.OK(n.t, h.in(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err == nil {
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, link)
			h.tun = os.NewFile(uintptr(fd), "wire")
		}
		return err
	}))
	n.t.Cleanup(func() { _ = h.tun.Close() })
	return h
}

// in calls f in a thread that is on the host. So is what f starts.
func (h *host) in(f func() error) (err error) {
	done := make(chan struct{})
	onOwnThread(make(chan struct{}), func() {
		defer close(done)
		err = h.enter(f)
	})
	<-done
	return err
}

// enter is in for a thread that ends soon. Afterwards it sees the machine's files again, but is still on the host.
func (h *host) enter(f func() error) error {
	dir, err := os.Getwd()
	back, failed := os.Open("/proc/thread-self/ns/mnt")
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	defer back.Close()
	const all = unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWPID | unix.CLONE_NEWNS
	if err = errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(h.first, all), unix.Chdir(dir)); err == nil {
		err = f()
	}
	return errors.Join(err, unix.Setns(int(back.Fd()), unix.CLONE_NEWNS))
}

// processes are all that run on the host, but those that it was born with.
func (h *host) processes() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid := 0
		_, _ = fmt.Sscan(filepath.Base(dir), &pid)
		if ids, _ := os.Readlink(dir + "/ns/pid"); ids == h.ids && !slices.Contains(h.born, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal signals all processes of the host, and those that these begin meanwhile.
func (h *host) signal(s syscall.Signal) (all int) {
	known := map[int]bool{}
	for calm := 0; calm < 3; time.Sleep(5 * time.Millisecond) {
		calm++
		for _, pid := range h.processes() {
			if !known[pid] {
				known[pid], calm = true, 0
				_ = unix.Kill(pid, s)
			}
		}
	}
	return len(known)
}

// carry carries what a host sends to the others, until its device is closed.
func (n *network) carry(of *host) {
	packet := make([]byte, 1<<16)
	for {
		size, err := of.tun.Read(packet)
		if err != nil {
			return
		}
		if size < 20 || packet[0]>>4 != 4 {
			continue
		}
		address := net.IP(packet[16:20]).String()
		to := slices.IndexFunc(n.all, func(h *host) bool { return h.address == address })
		if to < 0 {
			continue
		}
		n.mu.Lock()
		a, b := of.from, n.all[to].to
		lost := n.fate.Float64() < a.loses || n.fate.Float64() < b.loses
		n.mu.Unlock()
		switch text := bytes.Clone(packet[:size]); {
		case lost:
		case a.late+b.late == 0:
			_, _ = n.all[to].tun.Write(text)
		default:
			time.AfterFunc(a.late+b.late, func() { _, _ = n.all[to].tun.Write(text) })
		}
	}
}

func (n *network) link(of *host, to, from lane) {
	n.mu.Lock()
	defer n.mu.Unlock()
	of.to, of.from = to, from
}

// hosts harms one or two hosts of three, again and again.
func hosts(r *round) {
	n := &network{round: r, rng: r.random(10), fate: r.random(11), pick: r.random(12), socket: filepath.Join(r.dir, "ui")}
	n.add("db", n.rng.IntN(2) == 0)
	n.add("web1", false)
	n.add("web2", false)
	if n.add([]string{"web3", "web1"}[r.number%2], false); r.number%2 == 1 {
		r.inject("%s and %s have one name", n.all[1].name, n.all[3].name)
	}
	wrong := time.Duration(1-2*n.rng.IntN(2)) * time.Hour
	n.all[1].clock = &tracedClock{}
	n.all[1].clock.Set(wrong)
	r.inject("the clock of %s is %s wrong", n.all[1].name, wrong)
	n.serve()
	for _, h := range n.all {
		go n.carry(h)
	}
	r.lasting, r.starter, r.blames = true, n.start, regexp.MustCompile(itsHost)
	r.inside = func(pid int) int {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, ids, _ := strings.Cut(string(text), "\nNSpid:")
		_, _ = fmt.Sscan(ids, &pid, &pid) // outside and inside
		return pid
	}
	r.says = regexp.MustCompile("can't be reached|does not answer|another transaction|busy|lost its lock")
	r.live(workload{ticks: 6, backlog: 30, clients: 3}, stuckAfter, func(ctx context.Context) {
		ctx, stop := context.WithCancel(ctx)
		var crew sync.WaitGroup
		crew.Go(func() { n.takeOvers(ctx) })
		crew.Go(func() { n.page(ctx) })
		defer crew.Wait()
		defer stop()
		for range 12 {
			if time.Sleep(takeOver + time.Duration(n.rng.IntN(4000))*time.Millisecond); time.Now().Before(r.until) {
				n.strike()
			}
		}
		time.Sleep(givesBack[r.turn.engine]) // nothing of a lost connection holds up the worker that is alone then
	})
	r.notes = append(r.notes, fmt.Sprintf("a job stayed for at most %s with a worker without a lock; a transaction was open for at most %s",
		n.longest.Round(time.Millisecond), n.oldest))
	r.t.Log(r.notes)
}

// serve starts the server on its host.
func (n *network) serve() {
	var node *dbtest.Node
	socket := filepath.Join(n.dir, "sql")
	err := n.all[0].in(func() error {
		node = dbtest.OwnNode(n.t, "--bind-address=0.0.0.0", "--socket="+socket)
		return nil
	})
	dbtest.Require(n.t, err == nil && node != nil, "the server didn't start: %v", err)
	c := dbtest.Must(mysql.ParseDSN(node.DSN))(n.t)
	_, port, _ := net.SplitHostPort(c.Addr)
	c.Net, c.Addr = "unix", socket
	n.source = c.FormatDSN()
	n.begin()
	c = dbtest.Must(mysql.ParseDSN(n.user()))(n.t)
	c.Net, c.Addr = "tcp", net.JoinHostPort(n.all[0].address, port)
	n.configure(c.FormatDSN())
}

// itsHost is added to what a command has said that ended with its host.
const itsHost = "its host is gone"

// start starts a command on the host that has the fewest, so that those of a host that doesn't answer leave others alone.
func (n *network) start(c *exec.Cmd) (wait func(), err error) {
	began, work := time.Now(), btoi(c.Args[1] == "work")
	n.mu.Lock()
	var h *host
	for _, i := range n.pick.Perm(len(n.all) - 1) {
		if of := n.all[1+i]; !of.off && (h == nil || of.runs[work] < h.runs[work]) {
			h = of
		}
	}
	h.runs[work]++
	h.starting.RLock()
	n.mu.Unlock()
	defer h.starting.RUnlock()
	var t *trace
	if h.clock == nil {
		err = h.in(c.Start)
	} else {
		t, err = startTrace(c, traceOptions{Clock: h.clock, Start: func(c *exec.Cmd) error { return h.enter(c.Start) }})
	}
	return func() {
		if t == nil {
			_ = c.Wait()
		} else if err := t.Wait(5 * time.Minute); err != nil {
			n.violates("%s: %v", c.Args[1:], err)
		}
		n.mu.Lock()
		h.runs[work]--
		halts := slices.DeleteFunc(slices.Clone(h.halts), func(s span) bool { return s.to.Before(began) })
		n.mu.Unlock()
		for _, s := range halts {
			for _, t := range n.running() {
				if t.cmd == c {
					n.harm(t)
					n.pause(t, s.to.Sub(s.from))
				}
			}
			if c.ProcessState.ExitCode() == exitKilled {
				fmt.Fprintln(c.Stderr, itsHost)
			}
		}
	}, err
}

// strike harms one host or two at once.
func (n *network) strike() {
	whom := n.rng.Perm(len(n.all) - 1)[:1+btoi(n.rng.IntN(4) == 0)]
	u := n.rng.Float64() // most are short
	last := time.Second + time.Duration(u*u*float64(3*lockFor-time.Second))
	what := last.Round(time.Millisecond).String()
	var ends []func()
	for _, i := range whom {
		how, end := n.harms(n.all[1+i], last)
		ends = append(ends, end)
		n.inject("%s %s for %s", n.all[1+i].name, how, last.Round(time.Millisecond))
		what += fmt.Sprintf("; %s %s", n.all[1+i].name, how)
	}
	time.Sleep(last)
	for _, end := range ends {
		end()
	}
	n.idle.Excuse(time.Now().Add(aTick)) // long before, the others have gone on
	n.shows(what)
}

// takeOver is when the other hosts go on without one: after its lock and a tick. What a host that is gone has locked in a
// transaction is free again when the server gives it back.
const (
	aTick    = 2 * time.Second
	takeOver = lockFor + aTick
)

var givesBack = map[string]time.Duration{"mariadb": 10 * time.Second, "mysql": 20 * time.Second}

// harms harms a host in some way. Hosts that are slow may stand still for longer.
func (n *network) harms(h *host, last time.Duration) (how string, end func()) {
	excuse, mended := takeOver, func() { n.link(h, lane{}, lane{}) }
	defer func() { n.idle.Excuse(time.Now().Add(excuse)) }()
	cut := lane{loses: 1}
	switch n.rng.IntN(7) {
	case 0:
		n.link(h, cut, cut)
		return "cut off", mended
	case 1:
		n.link(h, cut, lane{})
		return "can send, but not receive", mended
	case 2:
		n.link(h, lane{}, cut)
		return "can receive, but not send", mended
	case 3:
		slow := lane{late: time.Duration(1+n.rng.IntN(500)) * time.Millisecond}
		n.link(h, slow, slow)
		excuse += last
		return fmt.Sprint(slow.late, " away each way"), mended
	case 4:
		lossy := lane{loses: 0.01 + 0.3*n.rng.Float64()} // more is a cut
		n.link(h, lossy, lossy)
		excuse += last
		return fmt.Sprintf("loses %.0f %% of the packets each way", 100*lossy.loses), mended
	case 5:
		n.link(h, cut, cut)
		processes, goOn := n.halt(h, unix.SIGKILL, 0)
		return fmt.Sprintf("is gone with %d processes", processes), func() {
			mended()
			goOn()
		}
	}
	processes, goOn := n.halt(h, unix.SIGSTOP, last)
	return fmt.Sprintf("stops with %d processes", processes), func() {
		var now unix.Timespec
		dbtest.OK(n.t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &now))
		n.mu.Lock()
		n.resumed = append(n.resumed, now.Nano())
		n.mu.Unlock()
		h.signal(unix.SIGCONT)
		goOn()
	}
}

// halt signals everything on the host. No command starts there until goOn, and none is just starting.
func (n *network) halt(h *host, s syscall.Signal, last time.Duration) (processes int, goOn func()) {
	n.mu.Lock()
	h.starting.Lock()
	h.off, h.halts = true, append(h.halts, span{time.Now(), time.Now().Add(last)})
	h.starting.Unlock()
	n.mu.Unlock()
	return h.signal(s), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		h.off = false
	}
}

// takeOvers looks, until ctx ends, for jobs that stay with a worker whose lock has ended.
func (n *network) takeOvers(ctx context.Context) {
	var held time.Time // when a transaction was last open for long: no worker can pass it
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		age := 0
		if err := n.db.QueryRow("SELECT COALESCE(MAX(TIMESTAMPDIFF(SECOND, trx_started, NOW())), 0) FROM information_schema.INNODB_TRX").Scan(&age); err == nil && age > 1 {
			held = time.Now()
			n.idle.Excuse(held.Add(aTick))
			if n.oldest = max(n.oldest, time.Duration(age)*time.Second); n.oldest > givesBack[n.turn.engine]+3*time.Second {
				n.violates("the server keeps what a transaction has locked for %s", n.oldest)
			}
		}
		for _, q := range queues {
			_ = n.each("SELECT w.id, j.id, TIMESTAMPDIFF(MICROSECOND, w.lock_until, UTC_TIMESTAMP(6)) FROM proof_"+q+" j JOIN proof_workers w ON w.id = j.worker_id"+
				" WHERE j.status IN ('locked', 'running', 'answered', 'deciding') AND w.lock_until < UTC_TIMESTAMP(6)", func(rows *sql.Rows) error {
				var worker string
				var job, late int64
				err := rows.Scan(&worker, &job, &late)
				by := time.Duration(late) * time.Microsecond
				if n.longest = max(n.longest, by); by > aTick && time.Since(held) > aTick {
					n.violates("job %d of %s stays with worker %s, whose lock has ended", job, q, worker)
				}
				return err
			})
		}
	}
}

// page runs hipq ui until ctx ends. It ends early only with its host, or if that can't reach the database.
func (n *network) page(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		var said bytes.Buffer
		c := n.command("ui", "--no-browser", "--listen", "unix:"+n.socket, "--behind-proxy", "X-User")
		c.Stderr = &said
		wait := dbtest.Must(n.start(c))(n.t)
		ended := context.AfterFunc(ctx, func() { _ = c.Process.Signal(unix.SIGTERM) })
		wait()
		if ended() && !strings.Contains(said.String(), itsHost) && !n.says.MatchString(said.String()) {
			n.violates("hipq ui has ended with %s: %s", c.ProcessState, &said)
		}
	}
}

// shows waits until the page shows the queues again.
func (n *network) shows(what string) {
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", n.socket)
	}}
	ask := dbtest.Must(http.NewRequest(http.MethodGet, "http://localhost/", nil))(n.t)
	ask.Header.Set("X-User", "operator")
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		answer, err := (&http.Client{Timeout: 5 * time.Second, Transport: t}).Do(ask)
		if err == nil {
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK && bytes.Contains(text, []byte(queues[0])) {
				n.t.Logf("%s: the page is there after %s", what, time.Since(began).Round(time.Millisecond))
				return
			}
			err = errors.New(answer.Status)
		}
		if time.Since(began) > takeOver {
			n.violates("%s: the page isn't there again: %v", what, err)
			return
		}
	}
}
