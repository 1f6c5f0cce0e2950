package handler

// account is nobody: hipq runs no programs on Windows.
type account struct{ name, home string }

func (p *Program) other() *account { return nil }

func (p *Program) asUser(f func() error) error { return f() }

// CheckSurroundings finds nothing: hipq runs no programs on Windows.
func (p *Program) CheckSurroundings() error { return nil }

// Foreign finds nobody, likewise.
func (p *Program) Foreign() error { return nil }
