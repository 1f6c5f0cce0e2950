package doctor

import "golang.org/x/sys/unix"

// volumeOf is the file system that a folder is on.
func volumeOf(folder string) (volume, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return volume{}, err
	}
	//nolint:unconvert // on arm they are of other types
	v := volume{free: int64(s.Bavail) * int64(s.Bsize), all: int64(s.Blocks) * int64(s.Bsize)}
	switch uint32(s.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC:
		v.shared = true
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		v.memory = true
	}
	return v, nil
}
