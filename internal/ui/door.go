package ui

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// door lets in the browser that brings the token, and then knows it by a cookie. Behind a proxy, it lets in whom the proxy
// names.
type door struct {
	Options

	// mu is for wrong and for Token, which is empty once it has been used.
	mu sync.Mutex
	// cookie is the cookie's name: another hipq ui on this host, whose port no cookie has, must not overwrite it.
	cookie string
	// session is the cookie's value.
	session string
	// wrong are the times of the latest wrong tokens.
	wrong []time.Time
}

// wrongMost is how many wrong tokens a minute the door takes before it answers none.
const wrongMost = 5

// policy allows only what this server sends: no inline script or style, no frame, no other host.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// guard lets requests pass from one's own pages only.
func (d *door) guard(next http.Handler) http.Handler {
	inside := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !d.isMeant(r.Host):
			http.Error(w, "Open this server as localhost or 127.0.0.1. A proxy must pass on the Host that the browser asked for.", http.StatusMisdirectedRequest)
		case d.isInside(r):
			inside.ServeHTTP(w, r)
		case d.UserHeader != "":
			http.Error(w, "The proxy didn't say who you are: it must set the header "+d.UserHeader+".", http.StatusForbidden)
		case r.Method == http.MethodGet && r.URL.Query().Has("token"):
			d.enter(w, r)
		default:
			http.Error(w, "Open the address that hipq ui printed. It works once; start hipq ui again for another.", http.StatusForbidden)
		}
	})
}

// isMeant reports whether a request's Host means this server. A name that somebody else lets lead to this host doesn't: a page
// of that name could send the header of the proxy. Names are for proxies, which browsers ask at another port.
func (d *door) isMeant(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, "80"
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil || name == "localhost" {
		return true
	}
	return d.UserHeader != "" && port != d.Port
}

// isInside reports whether the request comes from somebody who was let in.
func (d *door) isInside(r *http.Request) bool {
	if d.UserHeader != "" {
		return r.Header.Get(d.UserHeader) != ""
	}
	c, err := r.Cookie(d.cookie)
	return err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(d.session)) == 1
}

// enter exchanges the token for a cookie.
func (d *door) enter(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for len(d.wrong) > 0 && now.Sub(d.wrong[0]) > time.Minute {
		d.wrong = d.wrong[1:]
	}
	brought := r.URL.Query().Get("token")
	switch {
	case len(d.wrong) >= wrongMost:
		http.Error(w, "Too many wrong tokens. Wait a minute.", http.StatusTooManyRequests)
	case d.Token == "" || subtle.ConstantTimeCompare([]byte(brought), []byte(d.Token)) != 1:
		d.wrong = append(d.wrong, now)
		http.Error(w, "This token is wrong, or it was used before. Start hipq ui again for another.", http.StatusForbidden)
	default:
		d.Token = ""
		http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: d.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		// A redirect from another site's link would not bring a strict cookie; a page of this site's own does.
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(`<!doctype html><meta http-equiv="refresh" content="0; url=/"><title>hipq</title><a href="/">Go on</a>`))
	}
}
