package siting

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

const mountinfo = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /srv rw - nfs4 server:/export rw,vers=4.2
31 30 8:2 / /srv/local rw shared:7 master:2 - xfs /dev/sdb1 rw
32 22 0:41 / /mnt/my\040share\134x rw - cifs //server/share rw
33 22 0:42 / /home/me/far rw - fuse.sshfs me@far:/ rw
34 22 0:43 / /over rw - nfs server:/a rw
35 22 8:3 / /over rw - btrfs /dev/sdc rw
half a line
`

func TestFileSystemOfPath(t *testing.T) {
	for _, tt := range []struct{ path, kind string }{
		{"/", "ext4"},
		{"/var/lib/caddy/rate_limit/tally.db", "ext4"},
		{"/srv", "nfs4"},
		{"/srv/caddy/tally.db", "nfs4"},
		{"/srv2/tally.db", "ext4"},
		{"/srv/local/tally.db", "xfs"},
		{"/srv/locally/tally.db", "nfs4"},
		{`/mnt/my share\x/tally.db`, "cifs"},
		{"/home/me/far/tally.db", "fuse.sshfs"},
		{"/over/tally.db", "btrfs"},
	} {
		if kind := fileSystem([]byte(mountinfo), tt.path); kind != tt.kind {
			t.Errorf("%s is on %q, want %q", tt.path, kind, tt.kind)
		}
	}
	if kind := fileSystem(nil, "/srv"); kind != "" || isNetwork(kind) {
		t.Errorf("without a mountinfo it is on %q", kind)
	}
}

func TestNetworkFileSystems(t *testing.T) {
	for kind, want := range map[string]bool{
		"nfs": true, "nfs4": true, "cifs": true, "smb3": true, "9p": true, "fuse.sshfs": true, "ceph": true,
		"ext4": false, "xfs": false, "btrfs": false, "zfs": false, "tmpfs": false, "overlay": false, "fuseblk": false,
		"fuse.fuse-overlayfs": false, "": false,
	} {
		if isNetwork(kind) != want {
			t.Errorf("%q is a network's: %v, want %v", kind, !want, want)
		}
	}
}

func TestResolvedFollowsLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "real", "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"relative": "real", "absolute": filepath.Join(folder, "real"), "up": "real/deep/..", "twice": "relative",
		"dangling": "nowhere", "loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"real/deep": "real/deep", "relative/deep": "real/deep", "absolute/deep": "real/deep", "up/deep": "real/deep",
		"twice/deep/new": "real/deep/new", "dangling/new": "nowhere/new", "new/newer": "new/newer",
	} {
		if got := resolved(nil, filepath.Join(folder, path)); got != filepath.Join(folder, want) {
			t.Errorf("%s leads to %s, want %s", path, got, want)
		}
	}
	resolved(nil, filepath.Join(folder, "loop")) // terminates
}

// Accessing a file system whose server is gone would block.
func TestResolvedDoesNotLookIntoNetworks(t *testing.T) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", filepath.Join(folder, "link")); err != nil {
		t.Skip(err) // for example on Windows, without a privilege
	}
	mounts := []byte("30 22 0:40 / " + folder + " rw - nfs4 server:/export rw\n")
	path := filepath.Join(folder, "link", "tally.db")
	if got := resolved(mounts, path); got != path {
		t.Errorf("the link in a network was followed to %s", got)
	}
}
