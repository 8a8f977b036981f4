package zkconn

import (
	"strings"
	"unicode/utf8"
)

// CheckPath refuses what is no path of a znode, or is the root, by the rules
// of org.apache.zookeeper.common.PathUtils, and says what is wrong with it. The error is
// ErrInvalidPath.
func CheckPath(path string) error {
	switch {
	case path == "":
		return Errorf(ErrInvalidPath, "path is empty")
	case path[0] != '/':
		return Errorf(ErrInvalidPath, `path does not begin with "/"`)
	case path == "/":
		return Errorf(ErrInvalidPath, "path is the root")
	case path[len(path)-1] == '/':
		return Errorf(ErrInvalidPath, `path ends with "/"`)
	case !utf8.ValidString(path):
		return Errorf(ErrInvalidPath, "path is not valid UTF-8")
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		switch name {
		case "":
			return Errorf(ErrInvalidPath, `path contains "//"`)
		case ".", "..":
			return Errorf(ErrInvalidPath, "path contains the relative element %q", name)
		}
	}
	for i, r := range path {
		if isForbidden(r) {
			return Errorf(ErrInvalidPath, "path contains the character %U at byte %d", r, i)
		}
	}
	return nil
}

// isForbidden reports whether no path may contain r: a control character, one for private
// use, one of the specials at the end of the basic multilingual plane, or one above it, which
// the servers see as two surrogates.
func isForbidden(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// Parent returns the path of the znode above path, "" for one at the top.
func Parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }
