package zktest

import (
	"strings"
	"unicode/utf16"
)

// validPath reports whether path is a valid path of a znode
// (PathUtils.validatePath). Java checks UTF-16 code units, so characters beyond
// the basic multilingual plane are invalid.
func validPath(path string) bool {
	if path == "/" {
		return true
	}
	if path == "" || path[0] != '/' || path[len(path)-1] == '/' {
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	for _, r := range path {
		switch {
		case r <= 0x1f, r >= 0x7f && r <= 0x9f, r >= 0xd800 && r <= 0xf8ff, r >= 0xfff0 && r <= 0xffff,
			utf16.RuneLen(r) == 2:
			return false
		}
	}
	return true
}

// undeletable reports whether the server refuses to delete path
// (DataTree.isSpecialPath).
func undeletable(path string) bool {
	switch path {
	case "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		return true
	}
	return false
}
