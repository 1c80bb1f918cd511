//go:build linux

package journal

import (
	"cmp"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	zfs    = 0x2fc12fc1
	gfs2   = 0x01161970
	lustre = 0x0bd00bd0
)

// local are the file systems, by their numbers in statfs(2), whose files and locks are known to be those of
// one machine.
var local = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC:      true, // ext2 and ext3, too
	unix.XFS_SUPER_MAGIC:       true,
	unix.BTRFS_SUPER_MAGIC:     true,
	unix.F2FS_SUPER_MAGIC:      true,
	zfs:                        true,
	unix.BCACHEFS_SUPER_MAGIC:  true,
	unix.TMPFS_MAGIC:           true,
	unix.OVERLAYFS_SUPER_MAGIC: true,
}

// remote names some other file systems, for errors.
var remote = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.CIFS_SUPER_MAGIC:  "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.FUSE_SUPER_MAGIC:  "FUSE",
	unix.V9FS_MAGIC:        "9p",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	gfs2:                   "GFS2",
	lustre:                 "Lustre",
}

// checkFileSystem refuses a file on a file system that is not known to be local.
func checkFileSystem(f *os.File) error {
	var st unix.Statfs_t
	for {
		err := unix.Fstatfs(int(f.Fd()), &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("asking which file system it is on: %w", err)
		}
		return checkMagic(uint32(st.Type))
	}
}

func checkMagic(number uint32) error {
	if local[number] {
		return nil
	}
	name := cmp.Or(remote[number], "unknown")
	return fmt.Errorf(
		"%w: the file system is %s (%#x); expected one that is local, such as ext4, xfs, btrfs, zfs or tmpfs",
		ErrUnsupported, name, number)
}
