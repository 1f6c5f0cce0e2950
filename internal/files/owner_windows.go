package files

import "io/fs"

// ours accepts every file: the mode doesn't say here who may write it, and no config runs programs.
func (trusted) ours(string, fs.FileInfo) error { return nil }

// Writable leaves the check to SQLite.
func Writable(string) error { return nil }

func owners(fs.FileInfo) (user, group uint32) { return 0, 0 }
