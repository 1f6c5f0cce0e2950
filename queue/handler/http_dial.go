package handler

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/handling"
)

func (h *HTTP) dialled() {
	ping := cmp.Or(h.ping, pingAfter)
	dialer := &net.Dialer{Timeout: 30 * time.Second, ControlContext: h.mayConnect}
	h.transport = &http.Transport{ // without an http.Client, which takes a redirect that it can't parse for an error
		DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: h.RootCAs}, TLSHandshakeTimeout: 30 * time.Second,
		ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{SendPingTimeout: ping, PingTimeout: ping},
		MaxIdleConnsPerHost: 1000, IdleConnTimeout: idleFor, MaxResponseHeaderBytes: 256 << 10,
	}
	if h.Proxy {
		h.transport.Proxy = http.ProxyFromEnvironment
	}
}

// mayWrite checks ctx again once a request has its connection, because that may have taken a while.
func mayWrite(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if handling.Err(ctx) == nil {
			return
		}
		// HTTP/2 checks the context again before it writes, and other requests share its connection
		if secure, ok := got.Conn.(*tls.Conn); !ok || secure.ConnectionState().NegotiatedProtocol != "h2" {
			_ = got.Conn.Close()
		}
	}})
}

// mayConnect refuses addresses that are neither public nor in Networks.
func (h *HTTP) mayConnect(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return h.mayReach(to.Addr())
}

// CheckAddress returns an error for people if the URL's host is an address that HTTP refuses. It can't check names.
func (h *HTTP) CheckAddress() error {
	u, err := url.Parse(h.URL)
	if err != nil || h.Proxy { // the proxy connects to it
		return err
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil
	}
	return h.mayReach(ip)
}

func (h *HTTP) mayReach(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	if isPublic(ip) || slices.ContainsFunc(h.Networks, func(n netip.Prefix) bool { return n.Contains(ip) }) {
		return nil
	}
	return fmt.Errorf("%s is not a public address, and is not in the handler's networks", ip)
}

// hidden are further networks with addresses that aren't public.
var hidden = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // providers
	netip.MustParsePrefix("192.0.0.0/24"),    // protocols
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation, with the next two
	netip.MustParsePrefix("198.51.100.0/24"), //
	netip.MustParsePrefix("203.0.113.0/24"),  //
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	netip.MustParsePrefix("2001::/23"),       // protocols, including Teredo
	netip.MustParsePrefix("2001:db8::/32"),   // documentation, with the next
	netip.MustParsePrefix("3fff::/20"),       //
	netip.MustParsePrefix("2002::/16"),       // 6to4, which may contain any IPv4 address
}

// public6 contains all public IPv6 addresses. Others may contain any IPv4 address.
var public6 = netip.MustParsePrefix("2000::/3")

func isPublic(ip netip.Addr) bool {
	return (ip.Is4() || public6.Contains(ip)) && ip.IsGlobalUnicast() && !ip.IsPrivate() &&
		!slices.ContainsFunc(hidden, func(n netip.Prefix) bool { return n.Contains(ip) })
}
