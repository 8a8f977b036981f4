package zkrecipes

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// checkPath refuses what is no path of a znode, or is the root, by the rules
// of org.apache.zookeeper.common.PathUtils, and says what is wrong with it.
func checkPath(path string) error {
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

// resolve returns the absolute path of one that a user names in a lease's
// reads and writes, where "/" is the prefix itself.
func (c *Client) resolve(path string) (string, error) {
	if path == "/" {
		if c.prefix == "" {
			return "/", nil
		}
		return c.prefix, nil
	}
	return c.abs(path), c.checkPath(path)
}

// checkPath also refuses paths that no request has room for.
func (c *Client) checkPath(path string) error {
	const room = 1024 // for the rest of a request, and for the name of a place
	if n := len(c.prefix) + len(path); n > jute.MaxFrame-room {
		return zkconn.TooLarge(n + room)
	}
	return checkPath(path)
}
