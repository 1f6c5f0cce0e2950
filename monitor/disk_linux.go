package monitor

import "golang.org/x/sys/unix"

// DiskOf returns the file system of a folder.
func DiskOf(folder string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return Disk{}, err
	}
	// //nolint:unconvert // the types differ on arm
	v := Disk{Folder: folder, Free: int64(s.Bavail) * int64(s.Bsize), All: int64(s.Blocks) * int64(s.Bsize)}
	switch uint32(s.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC:
		v.Shared = true
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		v.Memory = true
	}
	return v, nil
}
