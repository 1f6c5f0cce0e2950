//go:build linux && amd64

package trace

type recorder struct{}
type Change struct{}

func (r *recorder) enters(c *Call) error  { return nil }
func (r *recorder) returns(c *Call) error { return nil }
func (t *Trace) checkMap(c *Call) error   { return nil }
