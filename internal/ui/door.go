package ui

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// door lets in the browser that brings the token, and then knows it by a cookie. Behind a proxy, it lets in whom the proxy
// names.
type door struct {
	Options

	// mu is for Token, which is empty once it has been used.
	mu sync.Mutex
	// cookie is the cookie's name: another hipq ui on this host, whose port no cookie has, must not overwrite it.
	cookie string
	// session is the cookie's value.
	session string
}

// policy allows only what this server sends: no inline script or style, no frame, no other host.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// guard lets requests pass from one's own pages only.
func (d *door) guard(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d.refuse(w, http.StatusForbidden, "Not from another site", "A cross-origin form can't change anything here.", "Go to the page in hipq ui, and act there.",
			"If this was your own page, the proxy must pass on the Host that the browser asked for.")
	}))
	inside := protection.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		open := strings.HasPrefix(r.URL.Path, "/files/") // which anybody may read: they are hipq's
		switch {
		case r.URL.Path == "/healthz":
			next.ServeHTTP(w, r)
		case !d.isMeant(r.Host):
			d.refuse(w, http.StatusMisdirectedRequest, "This host name isn't known here", "Open this server as localhost or 127.0.0.1.",
				"Use the address that hipq ui printed.", "A proxy must pass on the Host that the browser asked for: proxy_set_header Host $http_host.")
		case open || d.isInside(r):
			inside.ServeHTTP(w, r)
		case d.UserHeader != "":
			d.refuse(w, http.StatusForbidden, "The proxy didn't say who you are", "hipq ui was started with --behind-proxy "+d.UserHeader+", and this request lacks that header.",
				"Ask through the proxy, not directly.", "Let the proxy check who asks, and set the header: proxy_set_header "+d.UserHeader+" $remote_user.")
		case r.Method == http.MethodGet && r.URL.Query().Has("token"):
			d.enter(w, r)
		default:
			d.refuse(w, http.StatusUnauthorized, "This browser isn't let in yet", "Open the address that hipq ui printed.", help...)
		}
	})
}

// help is what a person without a session can do.
var help = []string{
	"Look at the terminal in which hipq ui runs, and open the address there. It lets one browser in, once.",
	"If it was used before, end hipq ui with Ctrl-C and start it again: it prints another.",
	"If you have the token, write it here: you then come to the page that you asked for.",
}

// refuse shows a page that says what to do.
func (d *door) refuse(w http.ResponseWriter, status int, title, text string, steps ...string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Token")
	}
	w.WriteHeader(status)
	_ = templates().ExecuteTemplate(w, "door", map[string]any{"Base": d.Base, "Title": title, "Text": text, "Steps": steps, "Asks": status == http.StatusUnauthorized})
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

// enter exchanges the token for a cookie. A token can't be guessed, so wrong ones aren't counted: they must not keep out the right one.
func (d *door) enter(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Token == "" || subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(d.Token)) != 1 {
		d.refuse(w, http.StatusUnauthorized, "This token doesn't work", "This token is wrong, or it was used before.", help...)
		return
	}
	d.Token = ""
	// Lax, so that links from tickets and chats work. They only read: CrossOriginProtection refuses forms of other sites.
	http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: d.session, Path: d.Base + "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, d.Base+here(r.URL.Path), http.StatusSeeOther)
}
