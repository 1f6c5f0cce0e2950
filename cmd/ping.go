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

// pingFor bounds a ping, because the run waits for it.
const pingFor = 5 * time.Second

// pinged tells a monitoring URL when a run starts and how it ended; an empty URL is none. The service alerts if it
// hears nothing. A failed ping is only a warning.
func (a *app) pinged(cmd *cobra.Command, to string, run func() error) error {
	if to == "" {
		return run()
	}
	// Without cancel, because the service must learn that an interrupted run failed.
	ctx := context.WithoutCancel(cmd.Context())
	tell := func(what string) {
		if err := ping(ctx, to, what); err != nil {
			a.warn(fmt.Errorf("ping_url: %w", err))
		}
	}
	tell("start")
	err := run()
	tell(map[bool]string{true: "fail"}[err != nil])
	return err
}

// ping requests a URL with what appended to its path. Errors don't contain the URL, because it is a secret.
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
		return errors.New("this URL can't be requested")
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
		return fmt.Errorf("%s answered %d", u.Host, response.StatusCode)
	}
	return nil
}

// sameHost keeps the secret in the URL from other hosts.
func sameHost(next *http.Request, before []*http.Request) error {
	first := before[0].URL
	switch {
	case next.URL.Host != first.Host || next.URL.Scheme != first.Scheme:
		return fmt.Errorf("%s redirects elsewhere", first.Host)
	case len(before) > 3:
		return fmt.Errorf("%s redirects too many times", first.Host)
	}
	return nil
}

// withoutPath removes the URL's path from an error.
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
