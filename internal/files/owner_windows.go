package files

import "io/fs"

// ours finds nothing to refuse: who may write a file is not in its mode here, and no program runs for what a config says.
func (trusted) ours(string, fs.FileInfo) error { return nil }

func owners(fs.FileInfo) (user, group uint32) { return 0, 0 }
