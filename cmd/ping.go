package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// pingFor is how long a ping may take: what it is about must not wait for it.
const pingFor = 5 * time.Second

// pinged tells a URL that a run starts, and how it ended: a service that raises an alarm when it hears nothing. No URL is none
// to tell. A ping that fails is a warning, and changes nothing.
func (a *app) pinged(cmd *cobra.Command, to string, run func() error) error {
	if to == "" {
		return run()
	}
	// an interrupted run has failed, and the service must know it
	ctx := context.WithoutCancel(cmd.Context())
	a.ping(ctx, to, "start")
	err := run()
	if err != nil {
		a.ping(ctx, to, "fail")
	} else {
		a.ping(ctx, to, "")
	}
	return err
}

func (a *app) ping(ctx context.Context, to, what string) {
	if err := ping(ctx, to, what); err != nil {
		a.warn(fmt.Errorf("ping_url: %w", err))
	}
}

// ping asks for a URL, with one word more in its path. Errors don't contain the URL, because it is a secret.
func ping(ctx context.Context, to, what string) error {
	u, err := url.Parse(to)
	if err != nil {
		return errors.New("it is not a URL")
	}
	if what != "" {
		u = u.JoinPath(what)
	}
	ctx, cancel := context.WithTimeout(ctx, pingFor)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return errors.New("it can't be asked for")
	}
	request.Header.Set("User-Agent", "hipq")
	client := http.Client{CheckRedirect: sameHost, Transport: &http.Transport{DisableKeepAlives: true}} // without the environment's proxy
	response, err := client.Do(request)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return withoutPath(err, u)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10)
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %d", u.Host, response.StatusCode)
	}
	return nil
}

// sameHost keeps the secret in the URL from other hosts.
func sameHost(next *http.Request, before []*http.Request) error {
	first := before[0].URL
	switch {
	case next.URL.Host != first.Host || next.URL.Scheme != first.Scheme:
		return fmt.Errorf("%s redirects to elsewhere", first.Host)
	case len(before) > 3:
		return fmt.Errorf("%s redirects again and again", first.Host)
	}
	return nil
}

// withoutPath is an error that doesn't show the URL's path.
func withoutPath(err error, u *url.URL) error {
	text := err.Error()
	for _, secret := range []string{u.RequestURI(), u.EscapedPath(), u.Path} {
		if len(secret) > 1 {
			text = strings.ReplaceAll(text, secret, "/***")
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("%s did not answer within %s", u.Host, pingFor)
	}
	return errors.New(text)
}
