package siting

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// readMounts returns the text of the mountinfo of this process. On systems without one it returns
// nothing: then no file system is known to be a network's.
func readMounts() []byte {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return mounts
}

// maxLinks is how many symbolic links are followed, as many as Linux follows.
const maxLinks = 40

// resolved returns an absolute path with its symbolic links followed, as far as that is possible
// outside of network file systems.
func resolved(mounts []byte, path string) string {
	done := filepath.VolumeName(path) + string(filepath.Separator)
	links := 0
	for rest := path[len(done):]; rest != ""; {
		name, after, _ := strings.Cut(rest, string(filepath.Separator))
		next := filepath.Join(done, name)
		if isNetwork(fileSystem(mounts, next)) {
			return filepath.Join(next, after)
		}
		target, err := os.Readlink(next)
		if err != nil || links == maxLinks {
			done, rest = next, after
			continue
		}
		if links++; !filepath.IsAbs(target) {
			target = filepath.Join(done, target)
		}
		target = filepath.Join(target, after)
		done = filepath.VolumeName(target) + string(filepath.Separator)
		rest = target[len(done):]
	}
	return done
}

// networks are the file systems, by their Linux names, without memory that is shared between
// machines, or with locks that don't work between them.
var networks = []string{
	"9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
	"fuse.ceph-fuse", "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
}

func isNetwork(kind string) bool { return slices.Contains(networks, kind) }

// fileSystem returns the kind of file system that contains an absolute path, according to the text
// of a mountinfo (proc_pid_mountinfo(5)); "" if it is unknown. It follows no links.
func fileSystem(mounts []byte, path string) (kind string) {
	longest := -1
	for lines := bufio.NewScanner(bytes.NewReader(mounts)); lines.Scan(); {
		about, rest, _ := strings.Cut(lines.Text(), " - ")
		fields, described := strings.Fields(about), strings.Fields(rest)
		if len(fields) < 5 || len(described) == 0 {
			continue
		}
		point := unescaped(fields[4])
		if isWithin(point, path) && len(point) >= longest { // a later mount hides an earlier one
			kind, longest = described[0], len(point)
		}
	}
	return kind
}

// unescaped decodes a path of a mountinfo, in which blanks and the like are octal numbers.
func unescaped(path string) string {
	parts := strings.Split(path, `\`)
	for i, part := range parts[1:] {
		if code, err := strconv.ParseUint(part[:min(3, len(part))], 8, 8); err == nil {
			parts[i+1] = string([]byte{byte(code)}) + part[3:]
		}
	}
	return strings.Join(parts, "")
}

// isWithin reports whether a path is a folder or lies in it.
func isWithin(folder, path string) bool {
	relative, err := filepath.Rel(folder, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}
