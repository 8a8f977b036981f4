package zkconn

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckPath refuses what is no path of a znode, or is the root, by the rules
// of org.apache.zookeeper.common.PathUtils, and says what is wrong with it.
func CheckPath(path string) error {
	switch {
	case path == "":
		return errors.New("path is empty")
	case path[0] != '/':
		return errors.New(`path does not begin with "/"`)
	case path == "/":
		return errors.New("path is the root")
	case path[len(path)-1] == '/':
		return errors.New(`path ends with "/"`)
	case !utf8.ValidString(path):
		return errors.New("path is not valid UTF-8")
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		switch name {
		case "":
			return errors.New(`path contains "//"`)
		case ".", "..":
			return fmt.Errorf("path contains the relative element %q", name)
		}
	}
	for i, r := range path {
		if r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff {
			return fmt.Errorf("path contains the character %U at byte %d", r, i)
		}
	}
	return nil
}

// Parent returns the path of the znode above path, "" for one at the top.
func Parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }
