package config

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/files"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/handler"
)

// HTTP is the endpoint for the jobs of one type. Its files are read only before a request, so other commands need no
// right to read them.
type HTTP struct {
	URL         string            `key:"url"`
	Method      string            `key:"method" words:"POST PUT PATCH"`
	Headers     map[string]string `key:"headers"`
	HeaderFiles map[string]string `key:"header_files" file:"yes"`
	SecretFile  string            `key:"secret_file" file:"yes"`
	Networks    []string          `key:"networks"`
	CA          string            `key:"ca" file:"yes"`
	Proxy       bool              `key:"proxy"`
}

// headerName matches a valid header name.
var headerName = texts.Pattern("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// ownHeader matches the headers that hipq or net/http sets, in lower case.
var ownHeader = texts.Pattern(`^(host|content-(length|type|encoding)|transfer-encoding|connection|accept-encoding|te|trailer|upgrade|webhook-.*)$`)

func (b builder) http(path string, s *HTTP) {
	if s.URL == "" {
		b.missing(path+".url", "; write where the jobs go, such as https://example.org/jobs")
	} else if err := cmp.Or(handler.CheckURL(s.URL), handler.CheckNoPlaceholder([]string{s.URL}, 0)); err != nil {
		b.refuse(path+".url", "%w", err) // without the URL, which may hold a password
	}
	seen := map[string]bool{}
	b.headers(path+".headers", s.Headers, seen)
	b.headers(path+".header_files", s.HeaderFiles, seen)
	for i, text := range s.Networks {
		if n, err := netip.ParsePrefix(text); err != nil || n != n.Masked() {
			b.refuse(fmt.Sprintf("%s.networks[%d]", path, i), "%s is not a network; write 10.0.0.0/8, or 127.0.0.1/32 for one address", shown(text))
		}
	}
}

// headers refuses invalid and repeated headers.
func (b builder) headers(path string, headers map[string]string, seen map[string]bool) {
	for i, name := range slices.Sorted(maps.Keys(headers)) {
		at, low := element(path, i, name), strings.ToLower(name)
		switch {
		case !headerName().MatchString(name):
			b.refuse(path, "%s is not a valid header name", shown(name))
		case ownHeader().MatchString(low):
			b.refuse(at, "is set by hipq itself")
		case seen[low]:
			b.refuse(at, "is given twice")
		case strings.ContainsFunc(headers[name], isControl):
			b.refuse(at, "has a control character in its value, such as a newline, which is not allowed in a header")
		case handler.CheckNoPlaceholder([]string{headers[name]}, 0) != nil:
			b.refuse(at, "%w", handler.CheckNoPlaceholder([]string{headers[name]}, 0))
		}
		seen[low] = true
	}
}

// isControl reports whether a character is invalid in a header's value.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// Handler reads the files and returns the handler. Its errors are about the config, and contain no secret.
func (h HTTP) Handler() (*handler.HTTP, error) {
	made := &handler.HTTP{URL: h.URL, Method: h.Method, Header: http.Header{}, Proxy: h.Proxy}
	for _, text := range h.Networks {
		n, _ := netip.ParsePrefix(text) // Load refuses an invalid one
		made.Networks = append(made.Networks, n)
	}
	for name, value := range h.Headers {
		made.Header.Set(name, value)
	}
	for name, file := range h.HeaderFiles {
		value, _, err := readSecret(file)
		if err != nil {
			return nil, fmt.Errorf("header_files.%s: %w", name, err)
		}
		if strings.ContainsFunc(value, isControl) {
			return nil, fmt.Errorf("header_files.%s: %s has more than one line or another control character, which is not allowed in a header", name, shown(file))
		}
		made.Header.Set(name, value)
	}
	if h.SecretFile != "" {
		text, _, err := readSecret(h.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("secret_file: %w", err)
		}
		if strings.ContainsAny(text, "\r\n") {
			return nil, fmt.Errorf("secret_file: %s has more than one line", shown(h.SecretFile))
		}
		if made.Secret, err = signingKey(text); err != nil {
			return nil, fmt.Errorf("secret_file: %s %w", shown(h.SecretFile), err)
		}
	}
	if h.CA != "" {
		data, _, err := files.ReadTrusted(h.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		made.RootCAs = x509.NewCertPool()
		if !made.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("ca: %s has no PEM certificate", shown(h.CA))
		}
	}
	return made, nil
}

// Shared are the files with secrets that others may read.
func (h HTTP) Shared() (shared []string) {
	for _, file := range append(slices.Collect(maps.Values(h.HeaderFiles)), h.SecretFile) {
		if _, open, err := files.ReadTrusted(file); open && err == nil {
			shared = append(shared, file)
		}
	}
	slices.Sort(shared)
	return slices.Compact(shared)
}

// readSecret reads a one-line file; shared means that others may read it.
func readSecret(file string) (text string, shared bool, err error) {
	data, shared, err := files.ReadTrusted(file)
	text = strings.TrimRight(string(data), "\r\n")
	switch {
	case errors.Is(err, files.ErrUntrusted):
		err = fmt.Errorf("%s %w", shown(file), err)
	case err != nil:
		err = fmt.Errorf("%s can't be read: %w", shown(file), errors.Unwrap(err))
	case strings.TrimSpace(text) == "":
		err = fmt.Errorf("%s is empty", shown(file))
	}
	return text, shared, err
}

// signingKey parses a Standard Webhooks key: whsec_ and base64, or else the text itself.
func signingKey(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, "whsec_")
	if !ok {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) == 0 {
		return nil, errors.New("has no base64 after whsec_")
	}
	return key, nil
}

// pingURL checks a URL to ping; empty means none. Its path is a secret.
func (b builder) pingURL(path, text string) string {
	if u, err := url.Parse(text); text != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Fragment != "") {
		b.refuse(path, "is not a URL such as https://hc-ping.com/UUID (not shown because it may be a secret)")
	}
	return text
}
