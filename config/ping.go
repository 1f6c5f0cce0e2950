package config

import "net/url"

// pingURL reads a URL that is to be told of a run; empty is none. Its path is a secret, for whoever knows it can say that all
// is well.
func (b builder) pingURL(path, text string) string {
	if text == "" {
		b.note(path, nil, "")
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Fragment != "" {
		b.refuse(path, "is not a URL as https://hc-ping.com/UUID is (it is not shown, as it may be a secret)")
		b.note(path, hidden, text)
		return ""
	}
	b.note(path, openText(u.Scheme+"://"+u.Host+"/"+hidden), text)
	return text
}
